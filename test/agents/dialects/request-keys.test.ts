/** Every key of a request is read, changes nothing, is named, or is refused by its name. */
import { describe, expect, it } from 'vitest';
import type { AgentRequest } from '../../../src/agents/agent-request.ts';
import { AgentRefusal } from '../../../src/agents/agent-refusal.ts';
import { chatDialect } from '../../../src/agents/dialects/chat.ts';
import { messagesDialect } from '../../../src/agents/dialects/messages.ts';
import { ResponseStore } from '../../../src/agents/dialects/response-store.ts';
import { responsesDialect } from '../../../src/agents/dialects/responses.ts';

const DIALECTS = { chat: chatDialect, responses: responsesDialect, messages: messagesDialect } as const;
type Name = keyof typeof DIALECTS;

const functionOf = { name: 'find', parameters: { type: 'object' } };
const BASE: Readonly<Record<Name, object>> = {
  chat: { messages: [{ role: 'user', content: 'x' }], tools: [{ type: 'function', function: functionOf }] },
  responses: { input: 'x', tools: [{ type: 'function', ...functionOf }] },
  messages: { messages: [{ role: 'user', content: 'x' }], tools: [{ name: 'find', input_schema: { type: 'object' } }] },
};

function read(name: Name, more: object): AgentRequest {
  return DIALECTS[name].read({ ...BASE[name], ...more }, new ResponseStore());
}

function refusal(name: Name, more: object): AgentRefusal | null {
  try {
    read(name, more);
    return null;
  } catch (error) {
    if (error instanceof AgentRefusal) return error;
    throw error;
  }
}

const schema = { type: 'object', properties: { a: { type: 'string' } } };

/** What each key becomes. */
const READ: Readonly<Record<Name, readonly (readonly [body: object, settings: object])[]>> = {
  chat: [
    [{}, {}],
    [
      { temperature: 0.5, top_p: 0.9, seed: 3, n: 2, stop: 'END' },
      { temperature: 0.5, topP: 0.9, seed: 3, n: 2, stop: ['END'] },
    ],
    [{ max_tokens: 5 }, { maxTokens: 5 }],
    [
      { max_tokens: 5, max_completion_tokens: 6, stop: ['a', 'b'] },
      { maxTokens: 6, stop: ['a', 'b'] },
    ],
    [{ temperature: null, stop: null, n: null, tool_choice: null, response_format: null }, {}],
    [{ logprobs: true }, { logProbs: 0 }],
    [{ logprobs: true, top_logprobs: 3 }, { logProbs: 3 }],
    [{ logprobs: false, top_logprobs: 0 }, {}],
    [
      { tool_choice: 'required', parallel_tool_calls: false },
      { toolChoice: 'required', parallelToolCalls: false },
    ],
    [{ tool_choice: { type: 'function', function: { name: 'find' } } }, { toolChoice: { name: 'find' } }],
    [{ response_format: { type: 'text' } }, {}],
    [{ response_format: { type: 'json_object' } }, { jsonSchema: null }],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema } } }, { jsonSchema: schema }],
    [{ top_k: 20, min_p: 0.1, presence_penalty: 0.5 }, { extra: { top_k: 20, min_p: 0.1, presence_penalty: 0.5 } }],
  ],
  responses: [
    [
      { temperature: 0.5, top_p: 0.9, max_output_tokens: 5 },
      { temperature: 0.5, topP: 0.9, maxTokens: 5 },
    ],
    [{ include: ['message.output_text.logprobs', 'reasoning.encrypted_content'], top_logprobs: 2 }, { logProbs: 2 }],
    [
      { tool_choice: { type: 'function', name: 'find' }, parallel_tool_calls: true },
      { toolChoice: { name: 'find' }, parallelToolCalls: true },
    ],
    [{ text: { format: { type: 'json_schema', name: 'a', schema } } }, { jsonSchema: schema }],
    [{ text: {}, background: false, truncation: 'disabled' }, {}],
  ],
  messages: [
    [
      { max_tokens: 5, temperature: 0.5, top_p: 0.9, top_k: 3, stop_sequences: ['END'] },
      { maxTokens: 5, temperature: 0.5, topP: 0.9, stop: ['END'], extra: { top_k: 3 } },
    ],
    [{ tool_choice: { type: 'any', disable_parallel_tool_use: true } }, { toolChoice: 'required', parallelToolCalls: false }],
    [{ tool_choice: { type: 'tool', name: 'find' } }, { toolChoice: { name: 'find' } }],
    [{ output_config: { format: { type: 'json_schema', schema } } }, { jsonSchema: schema }],
  ],
};

const IGNORED: Readonly<Record<Name, object>> = {
  chat: {
    user: 'u',
    metadata: { a: 'b' },
    store: true,
    service_tier: 'auto',
    prompt_cache_key: 'k',
    prediction: { type: 'content', content: 'x' },
    modalities: ['text'],
    logit_bias: {},
    functions: [],
    stream_options: { include_obfuscation: true },
  },
  responses: {
    user: 'u',
    store: false,
    client_metadata: { a: 'b' },
    prompt_cache_key: 'k',
    stream_options: { include_obfuscation: false },
    include: ['reasoning.encrypted_content', 'web_search_call.action.sources'],
    max_tool_calls: 3,
  },
  messages: { metadata: { user_id: 'u' }, service_tier: 'auto', cache_control: { type: 'ephemeral' }, mcp_servers: [] },
};

const NAMED: Readonly<Record<Name, readonly (readonly [body: object, keys: readonly string[]])[]>> = {
  chat: [
    [{ verbosity: 'low', reasoning_effort: 'high' }, ['verbosity', 'reasoning_effort']],
    [
      {
        tools: [
          { type: 'function', function: { ...functionOf, strict: true } },
          { type: 'function', function: { name: 'b', strict: true } },
        ],
      },
      ['tools[].strict'],
    ],
  ],
  responses: [
    [{ reasoning: { effort: 'low' }, text: { verbosity: 'low' }, truncation: 'auto' }, ['truncation', 'text.verbosity', 'reasoning']],
    [{ tools: [{ type: 'web_search' }, { type: 'function', ...functionOf, strict: false }] }, ['tools[] (web_search)']],
  ],
  messages: [
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }, ['output_config.effort', 'thinking']],
    [{ tools: [{ type: 'bash_20250124', name: 'bash' }], mcp_servers: [{ url: 'x' }] }, ['tools[] (bash_20250124)', 'mcp_servers']],
  ],
};

const REFUSED: Readonly<Record<Name, readonly (readonly [body: object, key: string])[]>> = {
  chat: [
    [{ logit_bias: { 5: 1 } }, 'logit_bias'],
    [{ functions: [functionOf] }, 'functions'],
    [{ audio: { voice: 'x' } }, 'audio'],
    [{ modalities: ['text', 'audio'] }, 'modalities'],
    [{ web_search_options: { a: 1 } }, 'web_search_options'],
    [{ web_search_options: {} }, 'web_search_options'],
    [{ stream_options: { continuous_usage_stats: true } }, 'stream_options.continuous_usage_stats'],
    [{ tools: [0, 1].map(() => ({ type: 'function', function: functionOf })) }, 'tools[1].function.name'],
    [{ temprature: 1 }, 'temprature'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ min_p: 2 }, 'min_p'],
    [{ stop: [''] }, 'stop'],
    [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
    [{ tools: [{ type: 'function', function: { ...functionOf, examples: ['x'] } }] }, 'tools[0].function.examples'],
    [{ tools: [], tool_choice: 'required' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice'],
    [{ tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } }, 'tool_choice'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, 'messages[0].content[0]'],
    [{ messages: [{ role: 'assistant', content: null, function_call: { name: 'find', arguments: '{}' } }] }, 'messages[0].function_call'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
  ],
  responses: [
    [{ background: true }, 'background'],
    [{ conversation: 'conv_1' }, 'conversation'],
    [{ prompt: { id: 'p' } }, 'prompt'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ include: ['reasoning.encrypted_content', 'nonsense'] }, 'include[1]'],
    [{ stream_options: { other: true } }, 'stream_options.other'],
    [{ input: [{ type: 'custom_tool_call_output', call_id: 'c', output: 'x' }] }, 'input[0].type'],
    [{ input: [{ type: 'item_reference', id: 'msg_x' }] }, 'input[0].id'],
    [{ text: { format: { type: 'grammar' } } }, 'text.format.type'],
    [
      {
        tools: [
          { type: 'function', ...functionOf },
          { type: 'function', ...functionOf },
        ],
      },
      'tools[1].name',
    ],
  ],
  messages: [
    [
      {
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: 'It' },
        ],
      },
      'messages[1].role',
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }, 'messages[0].content[0]'],
    [{ n: 2 }, 'n'],
    [{ stop: 'END' }, 'stop'],
    [{ tool_choice: { type: 'tool', name: 'other' } }, 'tool_choice'],
    [{ output_config: { schema } }, 'output_config.schema'],
    [{ output_format: { type: 'grammar' } }, 'output_format.type'],
    [{ output_config: { format: { type: 'json_schema', schema } }, output_format: { type: 'json_schema', schema } }, 'output_format'],
  ],
};

for (const name of Object.keys(DIALECTS) as Name[])
  describe(`the dialect ${name}`, () => {
    it('reads keys into settings', () => {
      for (const [body, settings] of READ[name]) expect([body, read(name, body).settings]).toEqual([body, settings]);
    });

    it('ignores what changes nothing', () => {
      // Responses repeats what it was sent.
      expect({ ...read(name, IGNORED[name]), repeated: {} }).toEqual({ repeated: {}, ...read(name, {}) });
    });

    it('names what may change an answer elsewhere', () => {
      for (const [body, keys] of NAMED[name]) expect([body, read(name, body).unhonoured]).toEqual([body, keys]);
    });

    it('refuses the rest with a 400 that names the key', () => {
      for (const [body, key] of REFUSED[name]) {
        const { status, param, message } = refusal(name, body) ?? {};
        expect([body, status, param]).toEqual([body, 400, key]);
        expect(message).toContain(key);
      }
    });
  });

describe('messages', () => {
  it('offers a deferred tool once a result has named it', () => {
    const tools = [
      { name: 'ToolSearch', input_schema: { type: 'object' } },
      { name: 'Weather', input_schema: { type: 'object' }, defer_loading: true },
    ];
    const before = read('messages', { tools });
    expect([before.tools.map((tool) => tool.name), before.unhonoured]).toEqual([['ToolSearch'], []]);
    const messages = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'ToolSearch', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'tool_reference', tool_name: 'Weather' }] }] },
    ];
    const after = read('messages', { tools, messages });
    expect(after.tools.map((tool) => tool.name)).toEqual(['ToolSearch', 'Weather']);
    expect(after.messages.at(-1)).toEqual({ role: 'tool', toolCallId: 'c1', content: 'The tool Weather can be called now.' });
  });

  it('names the key of a schema as the request does', () => {
    const format = { type: 'json_schema', schema };
    expect(read('messages', { output_format: format })).toMatchObject({ settings: { jsonSchema: schema }, keys: { jsonSchema: 'output_format' } });
    expect(read('messages', { output_config: { format } })).toMatchObject({ keys: { jsonSchema: 'output_config.format' } });
  });

  it('tells the policy that a tool failed, once', () => {
    const result = (content: unknown, isError: boolean) => {
      const block = { type: 'tool_result', tool_use_id: 'c1', content, is_error: isError };
      return read('messages', { messages: [{ role: 'user', content: [block] }] }).messages[0]!.content;
    };
    expect([result('boom', true), result('boom', false), result([{ type: 'text', text: 'boom' }], true), result(undefined, true)]).toEqual([
      'Error: boom',
      'boom',
      'Error: boom',
      'Error: ',
    ]);
    for (const said of ['Error: boom', '<tool_use_error>No such tool</tool_use_error>']) expect(result(said, true)).toBe(said);
  });

  it('says that a prompt is too long in the words at which clients shorten it', () => {
    const tooLong = new AgentRefusal(400, 'messages', '9 tokens', 'context_length_exceeded');
    expect(messagesDialect.refusal(tooLong)).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens' },
    });
    expect(chatDialect.refusal(tooLong)).toMatchObject({ error: { code: 'context_length_exceeded' } });
  });
});
