"""The words that the judgement of sentences goes by. English, but for what tells other languages.

A table of phrases is read as alternatives, apart by line breaks or two blanks; inside, they are
regular expressions.
"""

from __future__ import annotations

import re
from typing import Final

from neverforget.storage.text_analysis import STOP_WORDS


def _phrases(table: str, *, begin: bool = False) -> re.Pattern[str]:
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
    been come take catch stay luck day time one ones help helpful support deserve worth worry
    problem question idea point kind
    i'm i've i'd i'll im you're you've you'd you'll it's that's there's what's let's
    don't didn't doesn't isn't can't won't couldn't wasn't
    """
FILLERS: Final = STOP_WORDS | _words(_FILLERS)

_HIMSELF = "i i'm i've i'd i'll im ive my mine"
_TOGETHER = "we we're we've we'll we'd our ours"
_ADDRESSED = "you you're you've you'd you'll your yours yourself u ur"
HIMSELF: Final = _words(_HIMSELF)  # somebody speaks of himself
TOGETHER: Final = _words(_TOGETHER)
ADDRESSED: Final = _words(_ADDRESSED)

# ---- sentences that are filler as a whole --------------------------------------------------------

_FEEL = (
    r"i(?:'m| am) (?:so |really |very )?(?:glad|happy|excited|proud|stoked|thrilled|sorry|rooting)"
)
COURTESY: Final = _phrases(
    rf"""
    thanks?  thank you  thx  cheers  congrat\w*  i'll get in touch
    you'?re welcome  no (?:problem|worries|need)  my pleasure
    good(?:bye| ?night| luck| to (?:see|hear))
    (?:great|nice) to (?:see|hear|meet|catch)
    bye  see (?:you|ya)  talk (?:to you )?(?:soon|later)  take care  stay (?:safe|strong|tuned)
    have (?:fun|an? )  enjoy (?:your|the|it)  keep (?:it up|me|us|going|up|on)  go for it
    (?:it's |it has )?been (?:a while|ages|a long time|so long|forever)  long time no see
    let me know  feel free  i can (?:help|show you|send you)
    i(?:'ll| will) (?:\w+ )?(?:check|do|try|keep|take) (?:it|that|them|you|ya)
    i(?:'ll| will) (?:\w+ )?(?:let you|now|see you|be (?:there|here)|do my best)
    i(?:'ll| will) (?:\w+ )?keep (?:pushing|going|working|trying|doing)
    i (?:\w+ )?(?:admire|appreciate|respect) (?:you|your|it|that|what you)
     don't (?:worry|give up)
    i hope (?:you|your|it|that|this)  here's to  missed you
    (?:i )?(?:just )?wanted to say (?:hi|hey|hello|thanks?)
    (?:i'm )?(?:so |super |really )?excited (?:for|about) (?:the future|you|your|it|that|this)
    hope (?:you|it|that|this|your|to hear)  wish(?:ing)? you
    can(?:'|no)t wait to (?:hear|see (?:you|it|what|how|your))
    looking forward to (?:hear|seeing you|it|your)
    how (?:cool|nice|great|sweet|lovely|awesome|have you|are you)  what an?
    (?:so |really )?(?:glad|happy|proud) (?:you|to (?:hear|help)|for you|of you|it)
    {_FEEL} (?:you|for you|that you|to (?:hear|see|help)|of you)
    i(?:'m| am) (?:always |just )?here (?:for|if|to)  you(?:'ve| have) got this  you can do it
    (?:i )?(?:totally |completely |definitely |really )?(?:agree|understand)
    i (?:get|feel|hear) (?:you|it)  i bet
    (?:i'm )?(?:so |really )?(?:glad|happy|lucky|grateful) to have you
    sounds? (?:like|good|great|so|awesome|amazing|really|fun|cool)
    let's (?:keep|continue|go|do it|stay|catch|make (?:it|sure))  i hear (?:the|that|you)
    (?:good|great|nice|awesome|well) (?:job|work|one|done|idea|point|for you)  way to go
    """,
    begin=True,
)
# Something is praised, or said of what everybody sees: nothing of whoever speaks.
REACTION: Final = _phrases(
    r"""
    that(?:'s|'ll| is| was| must| sounds?| looks?| would)?  this (?:is|looks?)  those  these
    it(?:'s| is| sounds?| looks?| must| was|'ll)  the \w+ (?:is|are|looks?)  your  looks  seems
    they(?:'re| are| look)  there's (?:nothing|something)  what  how  who  nothing  life  having
    \w+ing (?:\S+ ){1,12}(?:is|are|can|makes?|takes?)  everyone  people  sometimes  we all
    we can  our  let's
    """,
    begin=True,
)
INTERJECTIONS: Final = re.compile(
    r"(?:(?:wow|whoa|yeah|yep|yup|yes|oh|aw+|hey|hi|hello|and|but|so|well|man|gosh|haha|ok|okay"
    r"|oof|ugh|phew)(?:[,!]+ ?| )"
    r"|(?:no|nope|thanks|exactly|totally|absolutely|definitely|cool|nice|great|awesome|sure|right"
    r"|by the way|btw)[,!]+ ?)+",
    re.IGNORECASE,
)

# Asked of an assistant, now: a task and no memory, unless it is to hold from now on.
_SOFTLY = r"(?:(?:please|now|then|also|just) )*"
ORDER: Final = _phrases(
    rf"""
    {_SOFTLY}(?:fix|write|add|remove|delete|make|create|show|give|tell|explain|run|check|find)
    {_SOFTLY}(?:generate|update|change|translate|summari[sz]e|rewrite|help|list|print|use|do|stop)
    (?:can|could|would) you
    """,
    begin=True,
)
LASTING: Final = _phrases(r"always  never  from now on  in (?:the )?future  every time  by default")

# ---- what cannot be understood without what it answers -------------------------------------------

LEANING: Final = _phrases(
    r"""
    yes  yeah  yep  yup  no  nope  nah  sure  definitely  absolutely  exactly  of course
    not (?:really|yet)  both  neither  because  mostly  usually
    """,
    begin=True,
)
# A question that says by itself what is asked for, in however few words.
ASKING: Final = _phrases(
    "where  when  who  whose  which  how (?:old|many|much|long|often|far)", begin=True
)
YES_OR_NO: Final = re.compile(
    r"(?:yes|yeah|yep|yup|no|nope|nah|not (?:yet|really)|of course)(?:,? (?:i|we|it|they|he|she)"
    r" \w+(?:n't)?)?[.!]*$",
    re.IGNORECASE,
)
POINTING: Final = _phrases("it  them  there  that  they  him  her  one  those  these")
DANGLING: Final = _phrases(
    r"""
    it  its  they  them  their  that  he  she  his  her  those  these  both  neither
    this(?! (?:week|weekend|month|year|morning|afternoon|evening|summer|past|coming|time))
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
ELLIPTIC: Final = _phrases(
    rf"(?:{_LATELY} )?(?:{_PAST})  currently  can't  won't  don't  diagnosed  born", begin=True
)
CUES: Final[tuple[tuple[str, float, re.Pattern[str]], ...]] = (
    (
        "decision",
        2.0,
        _phrases(
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
        _phrases(
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
        _phrases(
            rf"""
            prefer\w*  favou?rites?  can't stand  (?:a |big |huge )fan of  allergic  fond of
            (?:i|we|he|she|they)(?: (?!feel|felt|look|sound|seem)\w+)? (?:{_LIKES})
            passionate about  keen on  obsessed with  (?:don't|doesn't) (?:like|eat|drink)
            (?:please )?(?:always|never) (?:use|write|do|call|ask|send|put|keep|answer|reply)
            vegetarian  vegan  (?:i'm|really|been) (?:really |so )?into
            """
        ),
    ),
    (
        "event",
        1.0,
        _phrases(
            rf"""
            {_WHO}(?:'ve| have| has| had)? (?:{_LATELY} )?(?:{_PAST})  ^(?:{_PAST})
            happened  yesterday  last (?:night|week|month|year|weekend|\w+day)  ago
            """
        ),
    ),
)
DOUBT: Final = _phrases(
    r"""
    maybe  perhaps  probably  might  not sure  i (?:guess|think|suppose)  possibly  apparently
    could be  seems?
    """
)
ASKED_TO: Final = _phrases(
    r"""
    remember (?:that|this|my|i)  note that  (?:don't|do not) forget (?:that|my|i)  keep in mind
    for the record
    """
)
WEIGHTY: Final = _phrases(
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
