"""How the scripted expert words its messages: paraphrases for every question, confirmation, answer and refusal."""

from __future__ import annotations

from pivotrl_core.environments.helpdesk.scenario import Kind, Topic

QUESTIONS: dict[Topic, tuple[str, ...]] = {
    Topic.ORDER: (
        "What is your order number?",
        "Sure. Which order is it?",
        "Could you give me the order number or your e-mail?",
        "Please tell me the order number.",
        "Happy to help. What is the order number?",
    ),
    Topic.WHICH: (
        "You have two orders, {}. Which one is it?",
        "I see {}. Which order do you mean?",
        "There are two orders: {}. Which one?",
    ),
    Topic.ITEMS: (
        "Which items do you want to return?",
        "What would you like to return?",
        "Which item is it?",
        "Please tell me the items to return.",
    ),
    Topic.ADDRESS: (
        "What is the new address?",
        "Where should it go?",
        "Please give me the new street and city.",
        "Which address should I use?",
    ),
    Topic.DAY: (
        "Which day suits you?",
        "What date would you like?",
        "When should we deliver it?",
        "Please tell me the new day.",
    ),
    Topic.QUANTITY: (
        "Which item, and how many?",
        "How many do you want, and of what?",
        "What quantity would you like?",
        "Please tell me the item and how many.",
    ),
}

NOT_FOUND = (
    "I cannot find that order. Could you check the number?",
    "There is no such order. What is the right number?",
    "That number does not exist. Can you check it?",
)

CONFIRMATIONS: dict[Kind, tuple[str, ...]] = {
    Kind.CANCEL: (
        "Done, order {order} is cancelled.",
        "I have cancelled order {order}.",
        "Your order {order} is cancelled now.",
        "All done. The order is cancelled.",
    ),
    Kind.RETURN: (
        "Done, your return is booked.",
        "I have booked the return for order {order}.",
        "The return is booked.",
        "All done. You can send it back now.",
    ),
    Kind.ADDRESS: (
        "Done, the address is changed.",
        "I have updated the address of order {order}.",
        "Order {order} goes to the new address now.",
        "All done. The new address is set.",
    ),
    Kind.DELIVERY: (
        "Done, the delivery is moved.",
        "I have set the new delivery day.",
        "Order {order} has the new day now.",
        "All done. The delivery is set.",
    ),
    Kind.QUANTITY: (
        "Done, the quantity is changed.",
        "I have changed the quantity in order {order}.",
        "Order {order} is updated.",
        "All done. The new quantity is set.",
    ),
    Kind.ARRIVAL: (
        "Order {order} arrives on {answer}.",
        "It arrives on {answer}.",
        "Your order comes on {answer}.",
        "You can expect it on {answer}.",
    ),
    Kind.TOTAL: (
        "The total is {answer}.",
        "Order {order} costs {answer}.",
        "It comes to {answer}.",
        "Your order was {answer} in total.",
    ),
}
MORE = ("", "", "", " Anything else?", " Is there anything else?")

REFUSALS: dict[Kind, tuple[str, ...]] = {
    Kind.CANCEL: (
        "Sorry, it has shipped, so I cannot cancel it.",
        "I cannot cancel order {order}, it is shipped.",
        "I'm afraid a shipped order can't be cancelled.",
    ),
    Kind.RETURN: (
        "Sorry, more than 30 days have passed, so I cannot take it back.",
        "I cannot accept the return, it is over 30 days.",
        "I'm afraid it is too old, we can't take it back.",
    ),
    Kind.ADDRESS: (
        "Sorry, it has shipped, so I cannot change the address.",
        "I cannot change order {order}, it is shipped.",
        "I'm afraid the address of a shipped order can't be changed.",
    ),
}
