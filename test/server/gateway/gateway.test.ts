import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { AgentRequest, AgentTurn } from '../../../src/agents/agent-request.ts';
import { Gateway } from '../../../src/server/gateway/gateway.ts';

const usage = { promptTokens: 11, completionTokens: 3, cachedTokens: null };
const said = (content: string): AgentTurn => ({ content, toolCalls: [], finish: 'stop', usage });

/** A session that says who was asked, and remembers what. */
function echo(name: string) {
  const asked: AgentRequest[] = [];
  return {
    asked,
    model: name,
    ask: async (request: AgentRequest): Promise<readonly AgentTurn[]> => {
      asked.push(request);
      return [said(`${name} heard ${request.messages.at(-1)!.content as string}`)];
    },
  };
}

const hello = { model: 'any', messages: [{ role: 'user', content: 'hello' }] };

async function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, text, json: () => JSON.parse(text) as unknown };
}

describe('Gateway', () => {
  it('answers the three dialects at the address of a session', async () => {
    await using gateway = await Gateway.open();
    using one = gateway.add(echo('one'));
    const client = new OpenAI({ baseURL: one.baseURL, apiKey: one.apiKey });
    const chat = await client.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'hello' }] });
    expect(chat.choices[0]!.message.content).toBe('one heard hello');
    const response = await client.responses.create({ model: 'any', input: 'hello' });
    expect(response.output_text).toBe('one heard hello');
    const message = await post(`${one.baseURL}/messages?beta=true`, { ...hello, max_tokens: 5 }, { 'x-api-key': one.apiKey });
    expect(message.json()).toMatchObject({ content: [{ type: 'text', text: 'one heard hello' }], usage: { input_tokens: 11, output_tokens: 3 } });
  });
});
