/**
 * ChatML for models without a chat template whose tokenizer has its two control tokens. Tools are in Hermes' format: listed in the system turn within `<tools>`,
 * called within `<tool_call>`, answered within `<tool_response>` in a user turn. Contents are not trimmed, and the template adds no text of its own except
 * instructions for calling tools.
 */
import { PythonTemplate } from './python-template.ts';
import type { TemplateRequest } from './tokenizer-source.ts';

/** The control tokens that it needs. */
export const CHATML_TOKENS = ['<|im_start|>', '<|im_end|>'] as const;

/** A Jinja template in the dialect of transformers. */
export const CHATML_TEMPLATE = `
{%- set begins_with_system = messages[0].role == 'system' %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if begins_with_system %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'These tools can be called. Each line gives one, with the JSON Schema of its arguments.\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\nA call is a JSON object between tags:\\n<tool_call>\\n{"name": <tool name>, "arguments": <arguments object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif begins_with_system %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
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
        {%- set content = message.content or '' %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if content or not loop.first %}
                    {{- '\\n' }}
                {%- endif %}
                {{- '<tool_call>\\n{"name": ' }}
                {{- call.function.name | tojson }}
                {{- ', "arguments": ' }}
                {{- call.function.arguments | tojson }}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}`;

let compiled: PythonTemplate | null = null;

export function renderChatml({ messages, tools, addGenerationPrompt }: TemplateRequest): string {
  compiled ??= new PythonTemplate(CHATML_TEMPLATE, { isChat: true });
  return compiled.render({ messages, tools: tools.length === 0 ? null : tools, add_generation_prompt: addGenerationPrompt });
}
