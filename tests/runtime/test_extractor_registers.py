"""The offline extractor on conversations of several kinds: what a person would write down."""

from __future__ import annotations

from neverforget.actors.extractor_contract import checked_facts
from neverforget.runtime.extractor_rules import RulesExtractor
from tests.runtime.extraction_windows import turn, window

DAY = "10 May 2023"


def learned(*said: str) -> list[str]:
    """Of lines like "user: Hello." and "assistant Kim: Hello."; without the day."""
    turns = []
    for seq, line in enumerate(said):
        who, _, text = line.partition(": ")
        role, _, name = who.partition(" ")
        turns.append(turn(seq, name or None, text, role=role))
    of = window(*turns)
    found = checked_facts(of, RulesExtractor().extract(of))
    return [fact.text.replace(f", {DAY}", "") for fact in found]


def test_a_session_with_a_coding_assistant() -> None:
    trace = 'Traceback (most recent call last):\n  File "app.py", line 3, in <module>\n    foo()\n'
    assert learned(
        "system: You are a coding assistant. The user lives in Berlin.",
        "user: hey, can you look at tests/test_orders.py? it started failing after I upgraded"
        " SQLAlchemy to 2.0",
        "assistant: Let me run it first.",
        'tool_call: {"name": "bash", "arguments": {"command": "pytest"}}',
        "tool_result: 1 failed, 12 passed in 3.21s",
        "assistant: I've changed it to `select(Order.id)` in orders/queries.py and all 13 tests"
        " pass now.",
        "user: great, thanks! please never use mocks in the tests, use the test database instead",
        "assistant: Understood.",
        "user: now add an endpoint that returns the open orders of a customer",
        "assistant: Should closed orders be included?",
        "user: no, only open ones. and limit it to 100 per page",
        "user: We moved to PostgreSQL 16 last month. Our staging port is 5433.",
        f"user: {trace}NameError: name 'foo' is not defined",
        "assistant: Sorry about that! I fixed the import in app.py.",
        "user: ok works. don't touch the migrations folder, Mia owns it",
        "user: let's go with Redis for the queue",
        "user: run the linter",
        "user: try again with python 3.12",
    ) == [
        "User: hey, can you look at tests/test_orders.py? it started failing after I upgraded"
        " SQLAlchemy to 2.0",
        "Assistant: I've changed it to `select(Order.id)` in orders/queries.py and all 13 tests"
        " pass now.",
        "User: please never use mocks in the tests, use the test database instead",
        "Assistant: Should closed orders be included? User: no, only open ones. and limit it to"
        " 100 per page",
        "User: We moved to PostgreSQL 16 last month (April 2023).",
        "User: Our staging port is 5433.",
        "Assistant: I fixed the import in app.py.",
        "User: don't touch the migrations folder, Mia owns it",
        "User: let's go with Redis for the queue",
    ]


def test_a_support_chat() -> None:
    assert learned(
        "assistant Kim: Hello, thank you for contacting us! How can I help you today?",
        "user Peter: Hi, my invoice for April is twice as high as usual, 2,340 kroner.",
        "assistant Kim: I'm sorry to hear that! I understand how frustrating that must be. Could"
        " you please give me your customer number?",
        "user Peter: It's 558-20931.",
        "assistant Kim: Thank you, Peter. One moment please.",
        "assistant Kim: I have corrected the invoice and you will get 1,240 kroner back.",
        "user Peter: Great, that was quick! Also I'm moving to Bergen on 1 July, can I take my"
        " contract with me?",
        "assistant Kim: Yes, you can. Just fill in the form on our website.",
        "user Peter: Ok. My new address is Strandgaten 14, 5013 Bergen.",
        "assistant Kim: Is there anything else I can help you with?",
        "user Peter: No, that's all.",
        "assistant Kim: I've noted that. Have a nice day!",
        "user Peter: You too, bye!",
    ) == [
        "Peter: Hi, my invoice for April is twice as high as usual, 2,340 kroner.",
        "Kim: Could you please give me your customer number? Peter: It's 558-20931.",
        "Kim: I have corrected the invoice and you will get 1,240 kroner back.",
        "Peter: Also I'm moving to Bergen on 1 July (1 July 2023).",
        "Peter: My new address is Strandgaten 14, 5013 Bergen.",
    ]


def test_friends_plan_a_trip() -> None:
    assert learned(
        "user Lena: Ok so who's in for Portugal in September?",
        "user Tom: Me! I can take the week from 11 September off.",
        "user Lena: I found a flight to Porto on 12 September for 129 euros, should I book it?",
        "user Tom: Yes please!",
        "user Tom: Awesome!! Can't wait. I'd like to stay near the river, no hostels please.",
        "user Lena: There's a small hotel in Ribeira, 95 a night with breakfast.",
        "user Tom: Sounds good. Oh and I'm vegetarian now, since March.",
        "user Lena: Noted. My sister Jana might join us in Lisbon for the weekend.",
        "user Lena: My passport runs out in August, I have to renew it before we go.",
        "user Tom: Don't forget the travel insurance!",
        "user Lena: I'll do that tomorrow. We'll have a great time!",
        "user Tom: Our flight back is on 20 September at 18:05 from Lisbon.",
    ) == [
        "Tom: I can take the week from 11 September off.",
        "Lena: I found a flight to Porto on 12 September for 129 euros.",
        "Lena: I found a flight to Porto on 12 September for 129 euros, should I book it? Tom: Yes"
        " please!",
        "Tom: I'd like to stay near the river, no hostels please.",
        "Lena: There's a small hotel in Ribeira, 95 a night with breakfast.",
        "Tom: Oh and I'm vegetarian now, since March.",
        "Lena: Noted. My sister Jana might join us in Lisbon for the weekend.",
        "Lena: My passport runs out in August (August 2023), I have to renew it before we go.",
        "Tom: Our flight back is on 20 September at 18:05 from Lisbon.",
    ]


def test_several_languages_in_one_conversation() -> None:
    assert learned(
        "user Jürgen: Moin! Kannst du mir bitte bei der Planung helfen?",
        "assistant: Natürlich! Womit soll ich anfangen?",
        "user Jürgen: Ich wohne seit März in Leipzig und arbeite als Tischler.",
        "user Jürgen: ok danke dir!",
        "user Jürgen: By the way, I also speak English at work. Meine Chefin kommt aus Irland.",
        "user Sofía: Hola, ¿qué tal? Me mudé a Valencia la semana pasada y todavía busco piso.",
        "user Sofía: ¡Muchas gracias por todo!",
        "user 健: 明日の会議は午後三時に変更になりました。了解です。",
        "user Marie: Salut ! Je suis allergique aux noix.",
        "user Marie: Quelle heure est-il ?",
        "user Ivan: Привет! Я переехал в Тбилиси в прошлом году и работаю программистом.",
    ) == [
        "Jürgen: Ich wohne seit März in Leipzig und arbeite als Tischler.",
        "Jürgen: By the way, I also speak English at work. Meine Chefin kommt aus Irland.",
        "Sofía: Me mudé a Valencia la semana pasada y todavía busco piso.",
        "健: 明日の会議は午後三時に変更になりました。",
        "Marie: Je suis allergique aux noix.",
        "Ivan: Я переехал в Тбилиси в прошлом году и работаю программистом.",
    ]
