"""The words that the judgement of sentences goes by. English, but for what tells other languages.

A table of phrases is read as alternatives, apart by line breaks or two blanks; inside, they are
regular expressions.
"""

from __future__ import annotations

import re
from typing import Final

from neverforget.storage.text_analysis import STOP_WORDS


def phrases(table: str, *, begin: bool = False) -> re.Pattern[str]:
    """Whole words, anywhere or only where the sentence begins."""
    parts = [part for line in table.split("\n") for part in line.strip().split("  ") if part]
    body = "|".join(part.strip() for part in parts)
    return re.compile(rf"(?:{body})\b" if begin else rf"\b(?:{body})\b", re.IGNORECASE)


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


# ---- words that tell nothing by themselves: praise, thanks, greetings, small talk ----------------

_FILLERS = """
    hello hi hey hiya yo greetings morning afternoon evening goodnight bye goodbye cya welcome
    thanks thank thankyou thx ty cheers please sorry pardon congrats congratulations
    ok okay okey k kk sure yes yeah yep yup yea ya no nope nah right exactly absolutely definitely
    totally certainly indeed alright fine cool nice great good better best awesome amazing super
    wonderful fantastic incredible excellent lovely perfect beautiful gorgeous stunning impressive
    inspiring inspirational interesting fun funny sweet neat rad wow whoa omg oh ah aw aww haha hah
    lol hmm hm um uh well anyway btw gotcha understood agree agreed true correct
    really very so such much lot lots quite pretty always never ever still even maybe kinda sorta
    actually honestly truly literally just only back way thing things stuff bit
    something anything everything nothing someone anyone everyone
    glad happy excited proud love loved hear heard hearing sound sounds sounding look looks looking
    seem seems see saw know knows think thinking thought feel feels feeling felt guess mean means
    bet hope hoping wish care appreciate appreciated talk talking chat soon later today keep
    keeping up
    oof ugh phew mmm yum yikes gosh
    embarrassing relaxing rough crazy wild tough hard important special
    got get getting go going gonna make makes making made let lets need want wanna tell say said
    though will must might shall already yet able sort whole
    been come take catch stay luck day time one ones help helpful support deserve worth worry
    problem question idea point kind
    i'm i've i'd i'll im you're you've you'd you'll it's that's there's what's let's
    they're they've they'll he's she's here's we're we've we'll
    don't didn't doesn't isn't can't won't couldn't wasn't
    """
FILLERS: Final = STOP_WORDS | _words(_FILLERS)

_HIMSELF = "i i'm i've i'd i'll im ive my mine"
_TOGETHER = "we we're we've we'll we'd our ours"
_ADDRESSED = "you you're you've you'd you'll your yours yourself u ur"
HIMSELF: Final = _words(_HIMSELF)  # somebody speaks of himself
TOGETHER: Final = _words(_TOGETHER)
ADDRESSED: Final = _words(_ADDRESSED)

# ---- what cannot be understood without what it answers -------------------------------------------

LEANING: Final = phrases(
    r"""
    yes  yeah  yep  yup  no  nope  nah  sure  definitely  absolutely  exactly  of course
    not (?:really|yet)  both  neither  because  mostly  usually
    """,
    begin=True,
)
# A question that says by itself what is asked for, in however few words.
ASKING: Final = phrases(
    "where  when  who  whose  which  how (?:old|many|much|long|often|far)", begin=True
)
FOR_SOMETHING: Final = phrases("any\\w*  some\\w*  what  how  which  where  when  who  why")
OPEN: Final = phrases("(?:so |and |but |then )?(?:what|how|which|where|when|who|why)", begin=True)
YES: Final = phrases("yes  yeah  yep  yup  sure  no  nope  nah", begin=True)
# "I fly on Monday, can you drive me?"
ASKS_BEHIND: Final = re.compile(
    r",? (?:so |and |but )?(?:can|could|should|shall|may|would|will|do|does|did|is|are|what|how"
    r"|when|where|which|who|why) (?:i|we|you|it|that|they|he|she|there|the|my|our|your)\b"
    r"[^,]*[?？]\W*$",
    re.IGNORECASE,
)
YES_OR_NO: Final = re.compile(
    r"(?:yes|yeah|yep|yup|no|nope|nah|not (?:yet|really)|of course)(?:,? (?:please|thanks))?"
    r"(?:,? (?:i|we|it|they|he|she) \w+(?:n't)?)?[.!]*$",
    re.IGNORECASE,
)
POINTING: Final = phrases("it  them  there  that  they  him  her  one  those  these")
# "This is my cat" shows something, and in "it's nice to swim" "it" stands for nothing.
_SHOWN = r"(?:is|was|are|were) (?:my|our|me|us|one of|some of|from|the first|a p(?:ic|hoto)\w*)"
_SO = r"(?:so |really |not |such |a (?=bummer|shame|pity|relief|pleasure|joy|wonder|honou?r))*"
_NOTHING = rf"{_SO}(?!an?\b|the\b|just\b)\w+ (?:to|that|when|how|about)\b"
DANGLING: Final = phrases(
    rf"""
    it(?!(?:'s| is| was| feels) {_NOTHING})  its  they  them  their  he  she  his  her
    mine  ours  yours  theirs  reminds?  makes?  both  neither  (?:those|these)(?! {_SHOWN}\b)
    that(?! {_SHOWN}\b)(?!'s (?:my|our|me|us)\b)
    this(?! {_SHOWN}\b)(?! (?:week|month|year|morning|afternoon|evening|summer|past|coming|time)\b)
    """,
    begin=True,
)

# ---- what kind of thing is told; the first that fits counts, with so much worth ------------------

_LIKES = "loves?|likes?|enjoys?|adores?|hates?|dislikes?"
_SELF = r"(?:i|we)(?:'ve| have)?"
_LATELY = r"(?:just|also|finally|recently|already)"
_WHO = rf"(?:i|we|he|she|they|who|and|my \w+|our \w+|\w+day|{_LATELY})"
_PAST = (
    r"went|visited|attended|bought|got|met|moved|started|finished|joined|won|lost|adopted|married"
    r"|graduated|took|made|ran|came|saw|signed|quit|left|shipped|broke|had|did|found|built|wrote"
    r"|gave|began|became|taught|led|held|spent|heard|tried|used|been|done|seen|gotten|sold|chose"
    r"|caught|read|set|put|fell|\w{3,}ed"
)
# "Moved to Berlin last month": of himself, in short.
ELLIPTIC: Final = phrases(
    rf"(?:{_LATELY} )?(?:{_PAST})  currently  can't  won't  don't  diagnosed  born", begin=True
)
CUES: Final[tuple[tuple[str, float, re.Pattern[str]], ...]] = (
    (
        "decision",
        2.0,
        phrases(
            rf"""
            (?:have |'ve |has )?decided  (?:my|our|the) decision  made up my mind
            {_SELF} (?:chose|chosen|agreed|opted|settled on)
            (?:was|were|is|are) (?:agreed|approved|rejected)
            (?:we|i)(?:'ll| will) (?:use|go with|ship|stick|switch|drop)
            let's (?:use|go with|ship|drop|switch|move|stick)
            """
        ),
    ),
    (
        "plan",
        1.5,
        phrases(
            r"""
            (?:'m|'re|is|are|am|'s) (?:\w+ )?(?:going to|planning|about to|hoping to|moving)
            gonna  plan(?:s|ned)? (?:to|on|for|is)  wants? to  wanna  would (?:love|like) to
            'd (?:love|like) to  hop(?:e|ing) to  intend\w* to  thinking (?:of|about)  looking into
            looking forward to  aim(?:s|ing)? to  (?:my|our) (?:goals?|dream|plans?)
            sign(?:ed|ing) up  scheduled  upcoming  tomorrow
            next (?:week|month|year|weekend|summer|\w+day)
            (?:i|we)(?:'ll| will)(?! (?:never|always))
            """
        ),
    ),
    (
        "preference",
        1.5,
        phrases(
            rf"""
            prefer\w*  favou?rites?  can't stand  (?:a |big |huge )fan of  allergic  fond of
            (?:i|we|he|she|they)(?: (?!feel|felt|look|sound|seem)\w+)? (?:{_LIKES})
            passionate about  keen on  obsessed with  (?:don't|doesn't) (?:like|eat|drink)
            (?:please )?(?:always|never) (?:use|write|do|call|ask|send|put|keep|answer|reply)
            from now on  by default  vegetarian  vegan  (?:i'm|really|been) (?:really |so )?into
            """
        ),
    ),
    (
        "event",
        1.0,
        phrases(
            rf"""
            {_WHO}(?:'ve| have| has| had)? (?:{_LATELY} )?(?:{_PAST})  ^(?:{_PAST})
            happened  yesterday  last (?:night|week|month|year|weekend|\w+day)  ago
            """
        ),
    ),
)
DOUBT: Final = phrases(
    r"""
    maybe  perhaps  probably  might  not sure  i (?:guess|think|suppose)  possibly  apparently
    could be  seems?
    """
)
ASKED_TO: Final = phrases(
    r"""
    remember (?:that|this|my|i)  note that  (?:don't|do not) forget (?:that|my|i)  keep in mind
    for the record
    """
)
WEIGHTY: Final = phrases(
    r"""
    allerg\w+  diagnos\w+  pregnan\w+  birthday  married  wedding  divorc\w+  engaged  died
    passed away  born  deadline  password  emergency  surgery  hospital  fired  hired
    promot(?:ed|ion)
    """
)

# ---- other languages -----------------------------------------------------------------------------

# Function words that are no English: one of them is enough where few words are ours.
_FOREIGN = """
    ich und der das ist nicht ein eine wir mit auf für auch aber sich dem wird haben bin
    je et les des est pas une dans pour avec sur nous vous mais suis très
    los las una es y que por con para está pero muy mi soy tengo
    il lo gli che di non sono ho anche della io
    eu não uma com você meu minha são
    ik het een niet zijn voor maar
    jag och att inte är det som på har
    """
FOREIGN: Final = _words(_FOREIGN)
COURTESY_FOREIGN: Final = re.compile(
    r"""(?:hallo|guten[ ](?:tag|morgen|abend)|danke\w*|vielen[ ]dank|bitte|tschüss|servus
    |bis[ ](?:bald|dann)|bonjour|bonsoir|salut|merci|au[ ]revoir|à[ ]bientôt|hola|buen[oa]s[ ]\w+
    |gracias|muchas[ ]gracias|adiós|ciao|grazie|prego|arrivederci|olá|obrigad[oa]|tchau|hoi
    |dank[ ]je|hej|tack|привет|здравствуйте|спасибо|пока|你好|您好|谢谢|謝謝|再见|再見|好的
    |こんにちは|おはよう\w*|こんばんは|ありがとう\w*|さようなら|はい|了解\w*|안녕\w*|감사\w*|고마워\w*|네
    )(?:[\s,;:!.。！、，]|$)""",
    re.IGNORECASE | re.VERBOSE,
)
