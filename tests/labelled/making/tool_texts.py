"""Pairs in which a free text differs, written and labelled by hand: notes, queries to a database, reports.

Each entry has the text that the expert wrote, texts that say the same, and texts that look alike and say something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json, Tool

Kinds = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Wording:
    """A text of the expert's, others that say the same, and others that do not, by kind."""

    text: str
    valid: Kinds
    wrong: Kinds


def _tool(name: str, about: str, argument: str, more: dict[str, Json] | None = None) -> Tool:
    return Tool(name, about, {"type": "object", "required": [argument], "properties": {
        argument: {"type": "string"}, **(more or {}),
    }})  # fmt: skip


NOTE = _tool("leave_note", "Leave a note for the courier.", "note")
TICKET = _tool(
    "open_ticket", "Open a ticket.", "description", {"priority": {"enum": ["low", "high"], "default": "low"}}
)
REMIND = _tool("add_reminder", "Remind the user of something.", "text")
MAIL = _tool("send_mail", "Send an e-mail.", "body")
SQL = _tool("run_query", "Run a query on the shop's database.", "sql", {"limit": {"type": "integer", "default": 100}})
SHELL = _tool("run_command", "Run a command on the server.", "command")
CALCULATOR = _tool("calculate", "Work out a sum.", "expression", {
    "expression": {"type": "string", "description": "The mathematical expression, such as '2 * (3 + 4)'."},
})  # fmt: skip

WORDINGS: Sequence[tuple[Tool, str, Sequence[Wording]]] = (
    (NOTE, "note", (
        Wording("Please leave the parcel with the neighbour at number 12.", (
            ("small_words", "Leave the parcel with the neighbour at number 12."),
            ("small_words", "Please leave parcel with neighbour at number 12"),
            ("punctuation", "please leave the parcel with the neighbour, at number 12!"),
        ), (
            ("negation", "Please do not leave the parcel with the neighbour at number 12."),
            ("number_in_text", "Please leave the parcel with the neighbour at number 21."),
            ("other_word_in_text", "Please leave the letter with the neighbour at number 12."),
        )),
        Wording("Ring the bell twice and wait by the back door.", (
            ("small_words", "Please ring the bell twice and wait by the back door."),
            ("punctuation", "Ring the bell twice, and wait by the back door"),
        ), (
            ("contrast_in_text", "Ring the bell twice and wait by the front door."),
            ("negation", "Don't ring the bell twice and wait by the back door."),
            ("number_in_text", "Ring the bell once and wait by the back door."),
        )),
        Wording("The gate code is 4471, and the dog is friendly.", (
            ("punctuation", "The gate code is 4471 and the dog is friendly"),
            ("contraction", "The gate code's 4471, and the dog is friendly."),
        ), (
            ("number_in_text", "The gate code is 4417, and the dog is friendly."),
            ("negation", "The gate code is 4471, and the dog is not friendly."),
            ("contrast_in_text", "The gate code is 4471, and the dog is unfriendly."),
        )),
        Wording("Nobody is at home before noon on Friday.", (
            ("synonym", "No one is at home before noon on Friday."),
            ("punctuation", "nobody is at home before noon on friday"),
        ), (
            ("contrast_in_text", "Nobody is at home after noon on Friday."),
            ("weekday_in_text", "Nobody is at home before noon on Monday."),
            ("negation", "Somebody is at home before noon on Friday."),
        )),
    )),
    (TICKET, "description", (
        Wording("The customer cannot log in since the update of 3 May.", (
            ("contraction", "The customer can't log in since the update of 3 May."),
            ("small_words", "Customer cannot log in since update of 3 May"),
            ("date_in_text", "The customer cannot log in since the update of May 3."),
        ), (
            ("negation", "The customer can log in since the update of 3 May."),
            ("contrast_in_text", "The customer cannot log out since the update of 3 May."),
            ("month_in_text", "The customer cannot log in since the update of 3 March."),
        )),
        Wording("Invoice 88120 was charged twice to the card ending in 0042.", (
            ("small_words", "Invoice 88120 has been charged twice to the card ending in 0042."),
            ("punctuation", "invoice 88120 was charged twice, to the card ending in 0042"),
        ), (
            ("number_in_text", "Invoice 88120 was charged twice to the card ending in 0024."),
            ("number_in_text", "Invoice 88102 was charged twice to the card ending in 0042."),
            ("negation", "Invoice 88120 was never charged to the card ending in 0042."),
        )),
        Wording("The blue lamp arrived broken and the customer wants a refund.", (
            ("small_words", "The blue lamp has arrived broken, and the customer wants a refund."),
            ("synonym", "The blue lamp came broken and the customer wants a refund."),
            ("synonym", "The blue lamp arrived damaged and the customer would like a refund."),
        ), (
            ("other_word_in_text", "The blue lamp arrived broken and the customer wants a replacement."),
            ("contrast_in_text", "The red lamp arrived broken and the customer wants a refund."),
            ("negation", "The blue lamp arrived broken and the customer does not want a refund."),
        )),
        Wording("Printer on floor 2 jams when more than 10 pages are sent.", (
            ("small_words", "The printer on floor 2 jams when more than 10 pages are sent."),
            ("inflection", "Printers on floor 2 jam when more than 10 pages are sent."),
        ), (
            ("contrast_in_text", "Printer on floor 2 jams when less than 10 pages are sent."),
            ("numbers_exchanged", "Printer on floor 10 jams when more than 2 pages are sent."),
            ("other_word_in_text", "Scanner on floor 2 jams when more than 10 pages are sent."),
        )),
        Wording("User asks to move the booking from Tuesday to Thursday.", (
            ("small_words", "The user asks to move their booking from Tuesday to Thursday."),
            ("synonym", "User requests to move the booking from Tuesday to Thursday."),
        ), (
            ("exchanged_in_text", "User asks to move the booking from Thursday to Tuesday."),
            ("weekday_in_text", "User asks to move the booking from Tuesday to Friday."),
            ("other_word_in_text", "User asks to move the meeting from Tuesday to Thursday."),
        )),
    )),
    (REMIND, "text", (
        Wording("Call Anna about the contract before the meeting", (
            ("small_words", "Call Anna about contract before the meeting"),
            ("punctuation", "call Anna about the contract, before the meeting."),
            ("synonym", "Phone Anna about the contract before the meeting"),
        ), (
            ("name_in_text", "Call Anne about the contract before the meeting"),
            ("contrast_in_text", "Call Anna about the contract after the meeting"),
            ("other_word_in_text", "Call Anna about the contact before the meeting"),
        )),
        Wording("Take the white pills twice a day with food", (
            ("small_words", "Take white pills twice a day with food"),
            ("inflection", "Take the white pill twice a day with food"),
        ), (
            ("contrast_in_text", "Take the white pills twice a day without food"),
            ("number_in_text", "Take the white pills three times a day with food"),
            ("other_word_in_text", "Take the white pills twice a week with food"),
        )),
        Wording("Water the plants in the office, except the cactus", (
            ("small_words", "Please water plants in the office except the cactus"),
            ("synonym", "Water the plants in the office, but not the cactus"),
        ), (
            ("scope_in_text", "Water the plants in the office, only the cactus"),
            ("scope_in_text", "Water the plants in the office and the cactus"),
            ("other_word_in_text", "Water the plants in the kitchen, except the cactus"),
        )),
        Wording("Ben owes Carla 40 euros for the concert tickets", (
            ("synonym", "Ben owes Carla €40 for the concert tickets"),
            ("small_words", "Ben owes Carla 40 euros for concert tickets"),
        ), (
            ("exchanged_in_text", "Carla owes Ben 40 euros for the concert tickets"),
            ("number_in_text", "Ben owes Carla 14 euros for the concert tickets"),
            ("name_in_text", "Ben owes Clara 40 euros for the concert tickets"),
        )),
        Wording("Renew the passport and the driving licence in March", (
            ("order_of_and", "Renew the driving licence and the passport in March"),
            ("spelling_variant", "Renew the passport and the driving license in March"),
        ), (
            ("month_in_text", "Renew the passport and the driving licence in May"),
            ("scope_in_text", "Renew the passport or the driving licence in March"),
            ("negation", "Do not renew the passport and the driving licence in March"),
        )),
    )),
    (MAIL, "body", (
        Wording("Dear Mr Olsen, your order 5512 has shipped and should arrive within three days. Kind regards, the shop", (
            ("punctuation", "Dear Mr. Olsen,\n\nyour order 5512 has shipped and should arrive within three days.\n\nKind regards,\nthe shop"),
            ("number_word", "Dear Mr Olsen, your order 5512 has shipped and should arrive within 3 days. Kind regards, the shop"),
            ("paraphrase", "Dear Mr Olsen, we have shipped your order 5512; expect it within three days. Kind regards, the shop"),
        ), (
            ("negation", "Dear Mr Olsen, your order 5512 has not shipped and should arrive within three days. Kind regards, the shop"),
            ("number_in_text", "Dear Mr Olsen, your order 5512 has shipped and should arrive within five days. Kind regards, the shop"),
            ("name_in_text", "Dear Mr Olson, your order 5512 has shipped and should arrive within three days. Kind regards, the shop"),
        )),
        Wording("Hi Rosa, the invoice is attached. Please pay by bank transfer until 15 June, not by card.", (
            ("small_words", "Hi Rosa, invoice is attached. Please pay by bank transfer until 15 June, not by card."),
            ("punctuation", "Hi Rosa - the invoice is attached. Please pay by bank transfer until 15 June (not by card)."),
            ("date_in_text", "Hi Rosa, the invoice is attached. Please pay by bank transfer until June 15, not by card."),
        ), (
            ("exchanged_in_text", "Hi Rosa, the invoice is attached. Please pay by card until 15 June, not by bank transfer."),
            ("month_in_text", "Hi Rosa, the invoice is attached. Please pay by bank transfer until 15 July, not by card."),
            ("negation", "Hi Rosa, the invoice is attached. Please pay by bank transfer until 15 June or by card."),
        )),
        Wording("Hello team, the server will be down on Saturday from 8 to 11 for maintenance.", (
            ("small_words", "Hello team, the server is going to be down on Saturday from 8 to 11 for maintenance."),
            ("punctuation", "Hello team! The server will be down on Saturday, from 8 to 11, for maintenance."),
        ), (
            ("contrast_in_text", "Hello team, the server will be up on Saturday from 8 to 11 for maintenance."),
            ("weekday_in_text", "Hello team, the server will be down on Sunday from 8 to 11 for maintenance."),
            ("numbers_exchanged", "Hello team, the server will be down on Saturday from 11 to 8 for maintenance."),
        )),
    )),
    (SQL, "sql", (
        Wording("SELECT name, price FROM products WHERE price > 20 ORDER BY price", (
            ("case_of_keywords", "select name, price from products where price > 20 order by price"),
            ("line_breaks", "SELECT name, price\nFROM products\nWHERE price > 20\nORDER BY price"),
            ("final_semicolon", "SELECT name, price FROM products WHERE price > 20 ORDER BY price;"),
        ), (
            ("operator_in_text", "SELECT name, price FROM products WHERE price >= 20 ORDER BY price"),
            ("operator_in_text", "SELECT name, price FROM products WHERE price < 20 ORDER BY price"),
            ("other_word_in_text", "SELECT name, price FROM products WHERE price > 20 ORDER BY name"),
        )),
        Wording("SELECT COUNT(*) FROM orders WHERE status = 'open' AND total > 100", (
            ("line_breaks", "SELECT COUNT(*)\nFROM orders\nWHERE status = 'open'\n  AND total > 100"),
            ("case_of_keywords", "select count(*) from orders where status = 'open' and total > 100"),
        ), (
            ("operator_in_text", "SELECT COUNT(*) FROM orders WHERE status = 'open' OR total > 100"),
            ("operator_in_text", "SELECT COUNT(*) FROM orders WHERE status != 'open' AND total > 100"),
            ("other_word_in_text", "SELECT COUNT(*) FROM orders WHERE status = 'paid' AND total > 100"),
        )),
        Wording("UPDATE customers SET city = 'Lund' WHERE id = 31", (
            ("case_of_keywords", "update customers set city = 'Lund' where id = 31"),
            ("spaces_in_text", "UPDATE customers  SET city='Lund' WHERE id=31"),
        ), (
            ("number_in_text", "UPDATE customers SET city = 'Lund' WHERE id = 13"),
            ("left_out_of_text", "UPDATE customers SET city = 'Lund'"),
            ("operator_in_text", "UPDATE customers SET city = 'Lund' WHERE id > 31"),
        )),
    )),
    (SHELL, "command", (
        Wording("cp -r reports backup", (
            ("spaces_in_text", "cp  -r reports backup"), ("outer_space", "cp -r reports backup\n"),
        ), (
            ("exchanged_in_text", "cp -r backup reports"), ("other_word_in_text", "mv -r reports backup"),
            ("case_of_a_path", "cp -r Reports backup"),
        )),
        Wording("grep -c error logs/app.log", (("outer_space", "grep -c error logs/app.log "),), (
            ("case_of_an_option", "grep -C error logs/app.log"), ("other_word_in_text", "grep -c errors logs/app.log"),
            ("path_in_text", "grep -c error logs/api.log"),
        )),
        Wording("tail -n 50 /var/log/syslog | grep failed > /tmp/failed.txt", (
            ("spaces_in_text", "tail -n 50 /var/log/syslog  | grep failed  > /tmp/failed.txt"),
        ), (
            ("operator_in_text", "tail -n 50 /var/log/syslog | grep failed >> /tmp/failed.txt"),
            ("surplus_option", "tail -n 50 /var/log/syslog | grep -v failed > /tmp/failed.txt"),
            ("path_in_text", "tail -n 50 /var/log/syslog | grep failed > /tmp/failed.txt.old"),
        )),
    )),
    (CALCULATOR, "expression", (
        Wording("(158 + 141) * 3", (("spaces_in_text", "(158+141)*3"), ("same_value", "3 * (158 + 141)")), (
            ("operator_in_text", "(158 + 141) / 3"), ("operator_in_text", "(158 - 141) * 3"),
            ("number_in_text", "(158 + 114) * 3"), ("brackets_in_text", "158 + 141 * 3"),
        )),
        Wording("250 - 30 - 12 + 8", (("spaces_in_text", "250-30-12+8"), ("same_value", "250 - (30 + 12) + 8")), (
            ("operator_in_text", "250 - 30 + 12 + 8"), ("numbers_exchanged", "30 - 250 - 12 + 8"),
            ("brackets_in_text", "250 - 30 - (12 + 8)"),
        )),
        Wording("1200 * 0.19 + 1200", (("same_value", "1200 + 1200 * 0.19"), ("same_value", "1200 * 1.19")), (
            ("operator_in_text", "1200 * 0.19 - 1200"), ("number_in_text", "1200 * 0.91 + 1200"),
            ("number_in_text", "1200 * 1.9 + 1200"),
        )),
    )),
)  # fmt: skip
