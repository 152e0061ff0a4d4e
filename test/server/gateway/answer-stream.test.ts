import { describe, expect, it } from 'vitest';
import type { AgentTurn } from '../../../src/agents/agent-request.ts';
import { answerStream, type AnswerStreamOptions } from '../../../src/server/gateway/answer-stream.ts';

function stream(asked: Promise<readonly AgentTurn[]>, options: Partial<AnswerStreamOptions> = {}) {
  return answerStream({
    asked,
    opening: () => [{ event: 'begin', data: { a: 1 } }],
    events: () => [{ data: { b: 2 } }, { data: '[DONE]' }],
    failure: (error) => [{ event: 'error', data: { said: (error as Error).message } }],
    keepAlive: ': still here\n\n',
    onLeave: () => {},
    ...options,
  });
}

const text = (answer: string | ReadableStream<Uint8Array>) => new Response(answer).text();

describe('answerStream', () => {
  it('is one text where the answer comes soon', async () => {
    expect(await stream(Promise.resolve([]))).toBe('event: begin\ndata: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n');
  });

  it('rejects where the answer fails soon, so that the refusal has its own status', async () => {
    await expect(stream(Promise.reject(new Error('no')))).rejects.toThrow('no');
  });

  it('begins before a late answer, says that it is there, and ends with the answer', async () => {
    const late = Promise.withResolvers<readonly AgentTurn[]>();
    const answer = (await stream(late.promise, { opensAfterMs: 0, keepAliveMs: 1 })) as ReadableStream<Uint8Array>;
    const reader = answer.getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    expect([await read(), await read()]).toEqual(['event: begin\ndata: {"a":1}\n\n', ': still here\n\n']);
    late.resolve([]);
    let rest = '';
    for (let next = await read(); next !== ''; next = await read()) rest += next;
    expect(rest.replaceAll(': still here\n\n', '')).toBe('data: {"b":2}\n\ndata: [DONE]\n\n');
  });

  it('ends with the failure of a late answer, also one in the writing of it', async () => {
    const late = Promise.withResolvers<readonly AgentTurn[]>();
    const failed = await stream(late.promise, { opensAfterMs: 0 });
    late.reject(new Error('late'));
    expect(await text(failed)).toBe('event: begin\ndata: {"a":1}\n\nevent: error\ndata: {"said":"late"}\n\n');
    const slow = new Promise<readonly AgentTurn[]>((resolve) => setTimeout(resolve, 2, []));
    const unwritten = await stream(slow, {
      opensAfterMs: 0,
      events: () => {
        throw new Error('unwritten');
      },
    });
    expect(await text(unwritten)).toContain('{"said":"unwritten"}');
  });

  it('tells once that its client has left, and what comes later goes nowhere', async () => {
    const late = Promise.withResolvers<readonly AgentTurn[]>();
    let left = 0;
    const answer = (await stream(late.promise, { opensAfterMs: 0, onLeave: () => (left += 1) })) as ReadableStream<Uint8Array>;
    await answer.cancel();
    late.resolve([]);
    await late.promise;
    expect(left).toBe(1);
  });
});
