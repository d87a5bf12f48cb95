"""How users word things. Every entry is a list of paraphrases; a task's seed picks one when the task is made."""

from __future__ import annotations

from pivotrl_core.environments.helpdesk.scenario import Kind

OPENINGS: dict[Kind, tuple[str, ...]] = {
    Kind.CANCEL: (
        "Hi, please cancel my order.",
        "I want to cancel an order.",
        "Can you cancel an order for me?",
        "Hello, I'd like my order cancelled.",
        "I need to call off an order.",
    ),
    Kind.RETURN: (
        "Hi, I want to send something back.",
        "I'd like to return part of my order.",
        "Can I return something?",
        "Hello, I have a return to make.",
        "Please take back something I bought.",
    ),
    Kind.ADDRESS: (
        "Hi, please change my delivery address.",
        "My order should go to another address.",
        "I have moved, can you change the address?",
        "Hello, the address on my order is wrong.",
        "Please send my order to a new address.",
    ),
    Kind.DELIVERY: (
        "Hi, please move my delivery to another day.",
        "I'd like a different delivery day.",
        "Can you deliver my order on another date?",
        "Hello, I won't be home for my delivery.",
        "I need to reschedule a delivery.",
    ),
    Kind.QUANTITY: (
        "Hi, I ordered the wrong number of something.",
        "Can you change a quantity in my order?",
        "I'd like to change how many I ordered.",
        "Hello, please change a number in my order.",
        "My order has the wrong quantity.",
    ),
    Kind.ARRIVAL: (
        "Hi, when will my order arrive?",
        "When can I expect my order?",
        "On which day does my order come?",
        "Hello, I want to know when my order arrives.",
        "What is the delivery day of my order?",
    ),
    Kind.TOTAL: (
        "Hi, how much was my order?",
        "What is the total of my order?",
        "What did my order cost?",
        "Hello, I need the total price of my order.",
        "How much do I pay for my order?",
    ),
}

FOLLOW_UPS: dict[Kind, tuple[str, ...]] = {
    Kind.CANCEL: ("Then please cancel it.", "In that case, cancel that order.", "Fine. Now cancel it, please."),
    Kind.ADDRESS: ("Also change the address.", "And it must go to a new address.", "One more thing, a new address."),
    Kind.DELIVERY: ("Also move the delivery day.", "And I need another delivery day.", "One more thing, another day."),
    Kind.QUANTITY: ("Also change a quantity.", "And one quantity is wrong.", "One more thing, change a quantity."),
}

ORDER_GIVEN = ("It is order {}.", "The order number is {}.", "Order {}.", "My order is {}.", "The number is {}.")
EMAIL_GIVEN = (
    "My e-mail is {}.",
    "I don't have it. My e-mail is {}.",
    "I lost the number. I used {}.",
    "It is under {}.",
)
PHONE_GIVEN = ("My phone is {}.", "I only have my phone number, {}.", "Try my phone, {}.")
BOTH_GIVEN = ("Order {}, under {}.", "It is {}, my contact is {}.", "Order {}. You can also use {}.")
CORRECTION = ("Sorry, it is {}.", "My mistake, I mean {}.", "Oh, the right number is {}.", "Let me see... {}.")
WHICH = ("The one with the {}.", "I mean the order with the {}.", "The {} one.", "The order that has the {}.")

REASONS: dict[str, tuple[str, ...]] = {
    "unwanted": ("", "", "I don't need it any more.", "I changed my mind."),
    "mistake": ("I bought it by mistake.", "It was a mistake.", "I ordered it by accident."),
    "late": ("It takes too long.", "It comes too late for me.", "It is too late now."),
}
RETURNS = ("The {}", "It is the {}", "I want to return the {}", "Only the {}")
REFUNDS: dict[str, tuple[str, ...]] = {
    "card": (".", ".", ", money back to my card.", ", refund my card please."),
    "credit": (", for store credit.", ", and I want store credit.", ", as credit please."),
}
ADDRESSES = ("{}, {}.", "To {}, {}.", "It is {} in {}.", "Now it is {}, {}.")
DAYS = ("On {}", "{} please", "{} is good", "Make it {}")
SLOTS: dict[str, tuple[str, ...]] = {
    "morning": (".", ".", ", in the morning."),
    "afternoon": (", in the afternoon.", ", afternoon please."),
    "evening": (", in the evening.", ", evening please."),
}
QUANTITIES = ("Make it {} of the {}.", "I need {} of the {}.", "I want {} of the {}.", "{} of the {}, please.")

IDLE = ("That is all I know.", "I have nothing more to add.", "I told you everything.")
AGREE = ("Yes, please.", "Yes.", "Yes, go ahead.")
EMPTY = "Hello? Are you there?"
WAIT = "Okay."
INSIST = "Are you sure? It should be possible. Please look again."
UNANSWERED = "That does not answer my question."
