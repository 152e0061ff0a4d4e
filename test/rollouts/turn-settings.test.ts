import { describe, expect, it } from 'vitest';
import { AgentRefusal } from '../../src/agents/agent-refusal.ts';
import type { AgentRequest, AgentSettings } from '../../src/agents/agent-request.ts';
import { readMessagesRequest } from '../../src/agents/dialects/messages-request.ts';
import { readResponsesRequest } from '../../src/agents/dialects/responses-request.ts';
import { readCallOptions } from '../../src/agents/language-model-request.ts';
import type { PolicyCapabilities } from '../../src/clients/policy-client.ts';
import { turnSettings } from '../../src/rollouts/turn-settings.ts';

const TOKENS: PolicyCapabilities = { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'raw', toolCalls: 'hermes' };
const CHAT: PolicyCapabilities = { ...TOKENS, kind: 'chat', logProbsMode: 'none', toolCalls: 'structured' };
const sampling = { temperature: 1, topP: 1 };
const find = { name: 'find', description: '', parameters: {} };
const schema = { type: 'object' };
const input = [{ role: 'user', content: 'a' }];

type Request = Pick<AgentRequest, 'tools' | 'settings' | 'keys'>;

function settle(request: Request, { capabilities = TOKENS, isTrained = false, choice = 0 } = {}) {
  return turnSettings(request, { sampling, capabilities, isTrained, choice });
}

/** The key that a refusal names, also in its text. */
function refused(request: Request, options: Parameters<typeof settle>[1] = {}): string | null {
  try {
    settle(request, options);
  } catch (error) {
    if (error instanceof AgentRefusal && error.status === 400 && error.message.startsWith(`${error.param} `)) return error.param;
    throw error;
  }
  throw new Error('Expected a refusal, got settings');
}

const asked = (settings: AgentSettings, tools = [find]): Request => ({ settings, tools });
const store = { item: () => undefined, response: () => undefined };

describe('turnSettings', () => {
  it.each([
    ['response_format', asked({ jsonSchema: schema }, [])],
    ['text.format', readResponsesRequest({ input, text: { format: { type: 'json_schema', schema } } }, store)],
    ['output_config.format', readMessagesRequest({ messages: input, output_config: { format: { type: 'json_schema', schema } } })],
    ['responseFormat', readCallOptions('m', { prompt: [{ role: 'system', content: 'a' }], responseFormat: { type: 'json' } }, false)],
  ])('refuses a guided turn that would be trained by the key of the API, %s', (key, request) => {
    expect(refused(request, { isTrained: true })).toBe(key);
    expect(settle(request).sampling.extra).toHaveProperty('structured_outputs');
  });

  it('refuses a schema where tools are offered, because a guided turn calls none', () => {
    expect(refused(asked({ jsonSchema: schema }))).toBe('response_format');
    expect(settle(asked({ jsonSchema: schema, toolChoice: 'none' })).callable).toEqual([]);
    expect(settle(asked({ jsonSchema: schema }), { capabilities: CHAT }).sampling.extra).toHaveProperty('response_format');
  });

  it('names what a policy has no way to do, by the key of the API', () => {
    expect(refused(asked({}), { capabilities: { ...TOKENS, toolCalls: null } })).toBe('tools');
    const curious = readResponsesRequest({ input, include: ['message.output_text.logprobs'] }, store);
    expect(refused(curious, { capabilities: CHAT })).toBe('include');
  });

  it('shows the tools also to a turn that may call none, so that its conversation stays one', () => {
    expect(settle(asked({ toolChoice: 'none' }))).toMatchObject({ tools: [find], callable: [], prefill: '' });
    expect(settle(asked({ toolChoice: 'none' }), { capabilities: CHAT })).toMatchObject({
      tools: [find],
      sampling: { extra: { tool_choice: 'none' } },
    });
    expect(settle(asked({ toolChoice: 'none' }), { capabilities: { ...TOKENS, toolCalls: null } }).tools).toEqual([]);
  });

  it('hands on the seed of the agent, another one for each of several answers, unless the run’s settings hold', () => {
    const { seed } = settle(asked({ seed: 7 }));
    expect([seed, settle(asked({})).seed, settle(asked({ seed: 7 }), { isTrained: true }).seed]).toEqual([7, null, null]);
    const further = [1, 2].map((choice) => settle(asked({ seed: 7 }), { choice }).seed);
    expect(new Set([seed, ...further]).size).toBe(3);
    expect(settle(asked({ seed: 7 }), { choice: 1 }).seed).toBe(further[0]);
    expect(settle(asked({ seed: 7 }), { capabilities: CHAT }).sampling.extra).toEqual({ seed: 7 });
  });
});
