"""Sentences that tell nothing by themselves: courtesies, praise, cheer, promises of the moment,
advice, what everybody knows, tasks for an assistant. Tables as in ``extractor_words``.
"""

from __future__ import annotations

import re
from typing import Final

from neverforget.runtime.extractor_words import phrases

_FEEL = (
    r"i(?:'m| am) (?:so |really |very )?(?:glad|happy|excited|proud|stoked|thrilled|sorry|rooting)"
)
COURTESY: Final = phrases(
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
    (?:i )?(?:totally |completely |definitely |really |\d+% )?(?:agree|understand)
    i (?:get|feel|hear) (?:you|it)  i bet  appreciate (?:the|your|it|that)
    (?:i'm )?(?:so |really )?(?:glad|happy|lucky|grateful) to have you
    sounds? (?:like|good|great|so|awesome|amazing|really|fun|cool)
    let's (?:keep|continue|go(?! with)|do it|stay|catch|make (?:it|sure))  i hear (?:the|that|you)
    (?:good|great|nice|awesome|well) (?:job|work|one|done|idea|point|for you)  way to go
    (?:so )?sorry  oops  ouch  hang (?:in|tight)  it's (?:such )?a (?:bummer|shame|pity)
    """,
    begin=True,
)
# Something is praised, or said of what everybody sees: nothing of whoever speaks.
REACTION: Final = phrases(
    r"""
    that(?:'s|'ll| is| was| must| sounds?| looks?| would)?  this (?:is|looks?)  those  these
    it(?:'s| is| sounds?| looks?| must| was|'ll)  the \w+ (?:is|are|looks?)  your  looks  seems
    they(?:'re| are| look)  there's (?:nothing|something)  what  how  who  nothing  life  having
    \w+ing (?:\S+ ){1,12}(?:is|are|can|makes?|takes?)  everyone  people  sometimes  we all
    we can  let's  love (?:the|your|how|that|this|it|those|these|all)
    """,
    begin=True,
)
# Cheer, wishes and promises of the moment: nothing holds tomorrow but for a name or a number.
_AM = r"(?:i|we)(?:'m|'re| am| are|'ve been|'ve got to| have to| need to| gotta)?"
_WILL = r"(?:i|we)(?:'ll| will| can| could|'m gonna|'re gonna|(?:'m| am|'re| are) going to|'d)"
_ON = r"(?:stay|keep|push|press|hang|stick|carry|power|soldier|give|giv)(?:ing)?"
_IT = r"(?:it|that|them|this|these|those|some out)"
_ON_GOING = r"(?:\S+ )?(?:going|on|positive|strong|motivated|up(?! with))"
_DO = r"(?:check|try|give|take|do|add|consider|need|read|watch|write|share|bring|remember|get|use)"
_TO_YOU = r"(?:send|show|tell|keep|let|teach|give|help|cheer|support|join|text|call|ask) (?:you|u)"
_GOOD_TIME = r"(?:an? |some |such an? )?(?:\w+ )?(?:blast|fun|time|memories)"
SOFT: Final = phrases(
    rf"""
    (?:{_AM}|{_WILL})(?: \w+)?(?: to)? {_ON} {_ON_GOING}
    (?:{_AM}|{_WILL})(?: \w+)?(?: to)? {_ON} (?:each other|together|through|at|focused|pushing|it)
    (?:i|we)(?:'ll| will)? (?:never|won't|not) (?:give|giving|quit|stop)
    (?:i(?:'m| am) )?(?:\w+ )?(?:determined|ready|excited|thrilled|pumped|stoked)(?! to \w{{4,}})
    i(?:'m| am) (?:\w+ )?(?:hopeful|optimistic|lucky to have (?:you|people like|friends like))
    (?:i'm )?(?:\w+ )?(?:looking forward to (?:what|more|the future)|adding (?:it|that|them) to)
    {_WILL}(?: \w+)? make sure
    {_WILL}(?: \w+)?(?: to)? {_DO} {_IT}  {_WILL}(?: \w+)? take your  {_WILL}(?: \w+)? {_TO_YOU}
    {_WILL}(?: \w+)?(?: to)? (?:have|make) {_GOOD_TIME}  {_WILL}(?: \w+)? (?:reach out|get back)
    (?:i )?can(?:'|no)t wait  i hope (?:i|we)  (?:i )?wish (?:i|you|your|we)
    (?:i )?(?:can|could) (?:only )?(?:imagine|tell|relate)  i believe in
    i(?:'m| am) in awe  i (?:get|know|(?:can )?see) (?:how|why|what)(?! to)
    i(?:'m| am) (?:so |really |super )?(?:proud|glad|happy|stoked|thrilled|grateful) (?:for|of) you
    i(?:'m| am) (?:so |really |super )?(?:proud|glad|happy|stoked|thrilled) to be part of
    """,
    begin=True,
)
# News that there is some.
_MUCH = r"(?:a lot|lots|so much|much|some(?:thing)?|stuff|things)(?:'s| has| have)?"
ANNOUNCED: Final = phrases(
    rf"""
    {_MUCH} (?:\w+ ){{0,3}}(?:happen(?:ed|ing)|going on|been (?:\w+ )?(?:going|busy|crazy|hectic))
    (?:it's )?been an? (?:\w+ )?(?:while|week|month|year|ride|journey|time)
    """,
    begin=True,
)
# What holds of everybody, and so of nobody.
GENERAL: Final = phrases(
    r"""
    ourselves  yourself  oneself  each other  one another  we're all  us all  \w+ing (?:us|you)
    we all (?:have|need|find|want|know|are|get|deserve|face|go)  people  everyone  everybody
    it takes  it's (?:all |not just )?about  ^our
    (?:can|helps?|makes?|brings?|gives?|keeps?|reminds?|shows?|lets?)(?: \w+)? (?:us|you)
    (?:can|may) (?:really |also |definitely |always |sure )?(?:inspire|boost|be (?:so|very|a|an))
    (?:can|may) (?:really |also |definitely |always |sure )?be (?:hard|tough|challenging|fun|great)
    """
)
# The other one is praised, in the first person.
PRAISE: Final = phrases(
    r"""
    i(?:'m| am) (?:\w+ )?(?:proud|glad|happy|stoked|thrilled|impressed)(?: \w+)?(?: \w+)? you
    i (?:\w+ )?(?:love|like|admire|appreciate|see|hear|believe in)(?: how| that| what)? you
    """
)
# Guessed of what the other one has told.
GUESSED: Final = phrases(
    r"""
    must (?:have been|be (?:so|such|quite|really|very|an?)|feel)  must've been
    would(?:'ve| have) been
    """
)
INTERJECTIONS: Final = re.compile(
    r"(?:(?:wow|whoa|yeah|yep|yup|yes|oh|aw+|hey|hi|hello|and|but|so|well|man|gosh|haha|ok|okay"
    r"|oof|ugh|phew|oh yeah|yes please)(?:[,!]+ ?| )"
    r"|(?:no|nope|thanks|exactly|totally|absolutely|definitely|cool|nice|great|awesome|sure|right"
    r"|by the way|btw|as for me|plus|also|anyway)[,!]+ ?)+",
    re.IGNORECASE,
)

# Asked of an assistant, now: a task and no memory, unless it is to hold from now on.
_SOFTLY = r"(?:(?:please|now|then|also|just) )*"
ORDER: Final = phrases(
    rf"""
    {_SOFTLY}(?:fix|write|add|remove|delete|make|create|show|give|tell|explain|run|check|find)
    {_SOFTLY}(?:generate|update|change|translate|summari[sz]e|rewrite|help|list|print|use|do)
    {_SOFTLY}stop
    {_SOFTLY}(?:fill|click|open|go to|visit|press|restart|select|enter|reply|contact|wait)
    (?:can|could|would) you
    {_SOFTLY}(?:try|take|keep|focus|celebrate|cherish|embrace|believe|remember to)
    {_SOFTLY}(?:go for|get (?:some|an?)|set (?:some|an?)|start (?:with|by|small)|think (?:about|of))
    {_SOFTLY}look (?:at|how|what)
    {_SOFTLY}(?:imagine|consider|enjoy|gather|let (?:yourself|me)|be (?:sure|careful|kind|patient))
    {_SOFTLY}remember(?=, (?!i\b|my\b|we\b))
    {_SOFTLY}don't (?:worry|give up|be|let|forget (?:the|to|your|about|it))
    """,
    begin=True,
)
ASKED: Final = phrases(
    r"""
    please  kindly  from now on  you (?:should|must)
    (?:always|never)(?! \w+ing\b| (?:on|in|at|an?|the|so|been|had)\b)
    """,
    begin=True,
)
LASTING: Final = phrases("always  never  from now on  in (?:the )?future  every time  by default")
