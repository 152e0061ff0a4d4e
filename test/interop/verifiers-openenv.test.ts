/** verifiers' own taskset `openenv`, which plays any OpenEnv server, against `vf-serve environment`. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';
import { describePeer, resultLine, runPeer } from './peer.ts';
import { serveCommand } from './serve-command.ts';

const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });

interface Trace {
  readonly reset: { readonly example_id?: string; readonly seed?: number };
  readonly ok: boolean;
  readonly reward: { readonly score: number } | null;
  readonly errors: readonly object[];
  readonly messages: readonly (readonly [role: string, content: string])[];
}

interface Task {
  readonly example_id: string;
  readonly answer: string | readonly string[];
}

/** A chat API that streams, as the taskset's harness needs: says what `say` says to the messages so far. */
function chatPolicy(say: (turn: number, first: string) => string): Promise<Loopback> {
  return loopback(async (request: IncomingMessage, response: ServerResponse) => {
    if (!request.url!.endsWith('/chat/completions')) return sendJson(response, 200, { data: [{ id: 'scripted' }] });
    const { messages } = JSON.parse(await readText(request)) as {
      messages: readonly { role: string; content: string | readonly { text: string }[] }[];
    };
    const turn = messages.filter(({ role }) => role === 'assistant').length;
    const text = say(turn, JSON.stringify(messages.find(({ role }) => role === 'user')!.content));
    const chunk = (delta: object, finish: string | null) => ({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'scripted',
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const each of [chunk({ role: 'assistant', content: text }, null), chunk({}, 'stop')]) response.write(`data: ${JSON.stringify(each)}\n\n`);
    response.end('data: [DONE]\n\n');
  });
}

describePeer('verifiers-openenv', { quick: false }, () => {
  it('plays rows by example_id and by seed, with the rewards of the environment, and sends a number as text', async () => {
    await using server = await serveCommand(['environment', 'search-r1', '-a', WORLD]);
    const { tasks } = (await (await fetch(`${server.url}/v1/tasks?limit=3`)).json()) as { readonly tasks: readonly Task[] };
    const [right, wrong] = tasks as readonly [Task, Task];
    const gold = [right.answer].flat()[0]!;
    await using policy = await chatPolicy((turn) => (turn === 0 ? '42' : turn === 1 ? '<search> mayor </search>' : `<answer> ${gold} </answer>`));
    const resets = `[{example_id = "${right.example_id}"}, {example_id = "${wrong.example_id}"}, {seed = 2}]`;
    const run = await runPeer<{ readonly version: string; readonly openenv: string; readonly traces: readonly Trace[] }>(
      'verifiers-openenv',
      'vf_eval',
      [server.url, `${policy.url}/v1`, resets],
      { timeoutMs: 200_000 },
    );
    const byReset = new Map(run.traces.map((trace) => [trace.reset.example_id ?? trace.reset.seed, trace]));
    for (const [reset, score] of [
      [right.example_id, 1],
      [wrong.example_id, 0],
      [2, 0],
    ] as const) {
      expect(byReset.get(reset)).toMatchObject({ ok: true, errors: [], reward: { score } });
    }
    // What the model says crosses as JSON: 42 as a number, which is text again to the environment.
    const observed = byReset.get(right.example_id)!.messages.flatMap(([role, content]) => (role === 'user' ? [content] : []));
    expect(observed).toEqual([
      expect.stringContaining('Answer the given question'),
      expect.stringContaining('My previous action is invalid'),
      expect.stringMatching(/<information>Doc 1/),
    ]);
    const result = 'reward 1 for the right answer, 0 for others; the number 42 arrives as text';
    resultLine('verifiers openenv taskset', `${run.version}, openenv ${run.openenv}`, 'vf-serve environment: rows by example_id and by seed', result);
  });
});
