"""Messages of the help desk that policies sampled where the expert speaks, labelled by hand.

Valid ones ask for the same thing, refuse for the same reason or state the same result. Wrong ones state another day or
sum, refuse what can be done, claim what was not done, or state something where a question is due. Questions about
another detail than the expert's are left out: in which order details are asked is open at most states, and no rule says
it.
"""

from __future__ import annotations

from collections.abc import Sequence

MESSAGES: Sequence[tuple[str, int, int, Sequence[str], Sequence[tuple[str, str]]]] = (
    (
        "helpdesk-7f6ce61216dc41c2",
        5309508182732123468,
        4,
        ("I have booked the return for order F8669.", "I have booked the return. Anything else?"),
        (("claims_something_else", "You will receive the new order number."),),
    ),
    (
        "helpdesk-0ecc97927c879368",
        7474320711275675879,
        2,
        ("Your order D4163 costs 68.", "The total is 68. Anything else?"),
        (
            ("asks_in_place_of_answering", "What is the total price?"),
            ("answer_left_out", "I have the total now. Is there anything else?"),
        ),
    ),
    (
        "helpdesk-4dfb94b5c98a4b39",
        6393869443133547209,
        1,
        ("I cannot cancel order W6674, it comes on 14 May.",),
        (
            ("claims_what_was_not_done", 'I have changed the order "W6674", so it has the new date.'),
            ("asks_in_place_of_refusing", "Which dates do you want to cancel?"),
        ),
    ),
    (
        "helpdesk-01b5554440ed4448",
        6884348981253316987,
        4,
        ("Your order is cancelled now. Is there anything else?", "Success. Your order was cancelled."),
        (),
    ),
    (
        "helpdesk-3f78590dee3a3f3e",
        4959921349157411356,
        4,
        ("Your new address is updated.", "Done, the new address is set. Is there anything else?"),
        (),
    ),
    (
        "helpdesk-29e55bbb1f8dbb96",
        6888231609147211481,
        5,
        ("All done. The delivery is moved.", "The delivery is moved. Any other questions?"),
        (),
    ),
    (
        "helpdesk-a063f38e384933ff",
        7665690227393175040,
        1,
        ("$42 is the total. Is there anything else?",),
        (
            ("other_answer", "Your order B1382 is 17 April."),
            ("asks_in_place_of_answering", "Please give me the e-mail so I can check the order number."),
        ),
    ),
    (
        "helpdesk-57a96ee1fe0cd859",
        800957372586965502,
        3,
        ("All done. The new quantity is set.", "I have changed the quantity. Is there anything else?"),
        (
            (
                "asks_in_place_of_closing",
                "Unfortunately, the new quantity exceeds the 5 collected. Which day suits you?",
            ),
        ),
    ),
    (
        "helpdesk-4421af8cc0402220",
        6473607088206652278,
        3,
        ("Done, the order is cancelled. Is there anything else?", "Order W4967 is cancelled now."),
        (("claims_something_else", "All done. The order is moved."), ("other_order", "I have cancelled order m4967.")),
    ),
    (
        "helpdesk-87de9867dc4d6670",
        5508863494571913281,
        2,
        (),
        (
            ("claims_what_was_not_done", "I cannot make it go, your return is sent now."),
            ("claims_what_was_not_done", "The return is sent on 20."),
            ("asks_in_place_of_refusing", "How would you like to return it?"),
        ),
    ),
    (
        "helpdesk-2c87636e805965ce",
        5494658782043907832,
        4,
        ("It arrives on 2026-05-20 is there any other time?",),
        (
            ("other_answer", "Order H4000 arrives on 2026-05-29."),
            ("other_answer", "That order arrives on 2026-05-23. Is there anything else?"),
            ("answer_left_out", "I have shipped order H4000."),
        ),
    ),
    (
        "helpdesk-0f721b0ea3322292",
        7671213196497526342,
        3,
        ("I have updated the quantity for order E5920.", "Done, it has the new quantity. Is there anything else?"),
        (),
    ),
    (
        "helpdesk-efa11016957be8b4",
        50590670750385422,
        6,
        ("It has the new quantity now.", "Order Y4327 has the new quantity now."),
        (("claims_something_else", "Order Y4327 is moved to the new address now."),),
    ),
    (
        "helpdesk-e9fa04c4f501a6a8",
        1865199964278962503,
        2,
        (),
        (
            ("answers_in_place_of_asking", "Order T5687 comes to day 30, so I can adjust it."),
            ("answers_in_place_of_asking", "It goes to tuesday."),
        ),
    ),
    (
        "helpdesk-01b5554440ed4448",
        6884348981253316987,
        2,
        ("Which order do you mean?", "There are two orders. Which one?"),
        (
            ("claims_what_was_not_done", "Your order is cancelled now."),
            ("claims_what_was_not_done", "I have updated order V4422."),
        ),
    ),
    (
        "helpdesk-a568089450d36adc",
        2939644208899764922,
        1,
        ("Sorry, it is over 30 days, so I cannot take it back.",),
        (
            ("claims_what_was_not_done", "You can expect it on 30 days. Anything else?"),
            ("asks_in_place_of_refusing", "Which items do you want to return?"),
        ),
    ),
    (
        "helpdesk-9964015eb61d20a1",
        4760098782754959282,
        1,
        ("Order Y6581 arrives on 2026-05-17.", "You can expect it on 17 May."),
        (("asks_in_place_of_answering", "Happy to help. What is the order number?"),),
    ),
    (
        "helpdesk-710d07393fab09e1",
        1065837655605928092,
        0,
        ("What is your order number?", "Please tell me the order number."),
        (),
    ),
    (
        "helpdesk-8111bf9fb1e29114",
        5557604648251338844,
        0,
        ("What is your order number?", "Happy to help. Can you give me the order number or your e-mail?"),
        (),
    ),
    (
        "helpdesk-dfab21cdb98c1b4d",
        2167276361561804918,
        1,
        ("Order H6528 comes on 2026-05-20.", "It arrives on 20 May."),
        (("refuses_in_place_of_answering", "I cannot give you a new date now, it is moving."),),
    ),
    (
        "helpdesk-413835272b0220ac",
        70911707663842856,
        6,
        ("Order V7278 has the new address now.", "The address is updated."),
        (("claims_something_else", "The delivery is moved. Is there anything else?"),),
    ),
    (
        "helpdesk-9e8725177a3a0fa2",
        3354108119460796495,
        1,
        (),
        (
            ("claims_what_was_not_done", "Mr. nina20@mail.example has called off order P4877, and it finished 23 May."),
            ("asks_in_place_of_refusing", "What dates would you like?"),
        ),
    ),
    (
        "helpdesk-1fea6074975e7f94",
        728169475324611977,
        2,
        (),
        (
            ("claims_what_was_not_done", "I have processed order K6545."),
            ("asks_in_place_of_refusing", "Which item would you like to return?"),
        ),
    ),
    (
        "helpdesk-067c0386557b8e16",
        5944304869260019455,
        4,
        ("I have updated the delivery to go on 22 May.", "Done, the delivery is moved. Anything else?"),
        (),
    ),
    (
        "helpdesk-fd820f70ed5e0f25",
        7868239555988341176,
        1,
        ("Right now, it comes on 20 May.",),
        (("asks_in_place_of_answering", "What would you like to track?"),),
    ),
    (
        "helpdesk-c931ff9905521e43",
        3389334205859271166,
        1,
        (),
        (("refuses_in_place_of_asking", "Sorry, there are 26 days left, so I cannot change it."),),
    ),
    (
        "helpdesk-18b33096ff1bea04",
        7726885065138315004,
        2,
        ("All done. The delivery is set. Anything else?",),
        (("claims_something_else", "I have updated the delivery address, to the new date."),),
    ),
    (
        "helpdesk-8bc54222a66e42a3",
        4890011984610753456,
        1,
        ("Sorry, it has shipped, so I cannot cancel it.",),
        (("asks_in_place_of_refusing", "What would you like to cancel?"),),
    ),
    (
        "helpdesk-72c5c1965857de50",
        4156716484838667031,
        1,
        (
            "I cannot find the right order. What is the order number?",
            "Unable to find the order. What is the order number?",
        ),
        (),
    ),
)
"""Task, seed of the expert, turn; then messages that do the same, and others with what is wrong with them."""
