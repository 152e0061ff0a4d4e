"""Fixed texts: tags and sentences that are tokens of their own, common words, the chat template, prompts of the built-in protocols. Standard library only.

test/recipes/copy compares the prompts with those of the environments.
"""

from ..base.search_r1 import SearchR1

COMMON_WORDS = (
    "the of is was are in by to a an and or on at for with from did do does that it its as not no your you "
    "The What Which Who Where When How In A An It "
    "system user assistant answer search query question words query Question Answer Doc Title Error"
).split()

TAGS = [
    *SearchR1.markers,
    "<tools>",
    "</tools>",
    "<tool_call>\n",
    "\n</tool_call>",
    "<tool_response>\n",
    "\n</tool_response>",
    '{"name": "',
    '", "arguments": {"',
    '": "',
    '"}}',
    "(Title: ",
]

# Whole sentences between the tags of prompts, so that a prompt costs a few tokens. Any other prompt is tokenised by letters.
FIXED_TEXTS = [
    "Answer the given question. You must conduct reasoning inside ",
    " first every time you get new information. After reasoning, if you find you lack some knowledge, you can call a search engine by ",
    " and it will return the top searched results between ",
    ". You can search as many times as your want. If you find no further external knowledge needed, you can directly provide the answer inside ",
    ", without detailed illustrations. For example, ",
    " Beijing ",
    "My previous action is invalid. If I want to search, I should put the query between ",
    ". If I want to give the final answer, I should put the answer between ",
    ". Let me try again.\n",
    "Look things up with ",
    " before you answer. End with ",
    " your answer ",
    ", in a few words.",
]

TASK_HEAD, TASK_MIDDLE, TASK_END = "Look things up with ", " before you answer. End with ", ", in a few words."

# Hermes' calls. A tool is described by its description and by a call with empty arguments, which the model can copy and fill in.
CHAT_TEMPLATE = """\
{%- set begins_with_system = messages[0].role == 'system' %}
{%- if tools or begins_with_system %}
    {{- '<|im_start|>system\\n' }}
    {%- if begins_with_system %}
        {{- messages[0].content }}
    {%- endif %}
    {%- if tools %}
        {{- '\\n<tools>' }}
        {%- for tool in tools %}
            {{- '\\n' + tool.function.description + '\\n<tool_call>\\n{"name": "' + tool.function.name + '", "arguments": {' }}
            {%- for name in tool.function.parameters.properties %}
                {{- ('' if loop.first else ', ') + '"' + name + '": ""' }}
            {%- endfor %}
            {{- '}}\\n</tool_call>' }}
        {%- endfor %}
        {{- '\\n</tools>' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user\\n' }}
        {%- else %}
            {{- '\\n' }}
        {%- endif %}
        {{- '<tool_response>\\n' + (message.content or '') + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif not (loop.first and begins_with_system) %}
        {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if message.content or not loop.first else '' }}
            {{- '<tool_call>\\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
