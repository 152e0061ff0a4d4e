/**
 * A step of 16 groups of 8 episodes of visual-rag, 1 to 6 s each in 32 slots, with a judge that takes 2 s and answers 16 at once: scored while other episodes run,
 * against playing all and scoring then. The scored groups must be equal. The floor of the arithmetic is 0.63. And 512 calls of a model at once, again and again: the
 * memory stays, and every row gets its own answer.
 * `node --conditions=vf-search-source --expose-gc scripts/bench/streamed-scoring.ts [--runs 1] [--speed 1] [--json]`; `--speed 10` divides all times by ten.
 */
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { clientModel, openRoleModels } from 'vf-search/rollouts';
import { chatClient } from '../../test/models/chat-server.ts';
import { loopback, readText, sendJson } from '../../test/transport/loopback.ts';
import { measurement, type Measurement, type Pair, report } from './measurement.ts';
import { inOrder, ScoredDeck, type ScoredMember } from './scored-deck.ts';

const CALLS = 512;
const ROUNDS = 12;
/** Rounds after which the memory is the first figure. */
const WARM_ROUNDS = 4;

async function timed(play: () => Promise<ScoredMember[]>): Promise<{ readonly members: readonly ScoredMember[]; readonly seconds: number }> {
  const startedAt = performance.now();
  const members = inOrder(await play());
  return { members, seconds: (performance.now() - startedAt) / 1e3 };
}

async function benchStep(runs: number, speed: number): Promise<Measurement> {
  await using deck = await ScoredDeck.open({
    groups: 16,
    members: 8,
    slots: 32,
    judging: 16,
    episodeMs: (share) => (1000 + 5000 * share) / speed,
    judgeMs: () => 2000 / speed,
  });
  const pairs: Pair[] = [];
  for (let run = 0; run < runs; run++) {
    const [batch, streamed] = [await timed(() => deck.batch()), await timed(() => deck.streamed())];
    if (streamed.members.length !== 128 || !isDeepStrictEqual(streamed.members, batch.members)) throw new Error('The scored groups differ.');
    pairs.push({ ours: streamed.seconds, peer: batch.seconds });
  }
  return measurement({ what: 'a step of 16 groups of 8, judge of 2 s', unit: 's', against: 'play all, then score', bar: 0.7 }, pairs);
}

/** Heap in MB after the first rounds and after the last ones. Throws unless every call gets the answer to its own row. */
async function benchCalls(): Promise<Measurement> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await using server = await loopback(async (request, response) => {
    const { messages } = JSON.parse(await readText(request)) as { messages: readonly { content: string }[] };
    const asked = messages.at(-1)!.content;
    // Later rows answer first.
    await sleep(50 - (Number(asked) % 50));
    const message = { role: 'assistant', content: `row ${asked}` };
    sendJson(response, 200, {
      choices: [{ index: 0, finish_reason: 'stop', message }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    });
  });
  await using client = chatClient(server.url);
  await using roles = await openRoleModels({ judge: { model: clientModel(() => client, { name: 'judge', isPolicy: false }), maxConcurrent: CALLS } });
  const heap: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const rows = Array.from({ length: CALLS }, (_, row) => row);
    const { signal } = new AbortController();
    const ask = (row: number) => roles.models['judge']!.generate([{ role: 'user', content: String(row) }], { maxTokens: 8, signal });
    const replies = await Promise.all(rows.map(ask));
    if (
      !isDeepStrictEqual(
        replies.map(({ text }) => text),
        rows.map((row) => `row ${row}`),
      )
    )
      throw new Error('A row got another row’s answer.');
    collect();
    heap.push(process.memoryUsage().heapUsed / 2 ** 20);
  }
  const pair = { ours: heap.at(-1)!, peer: heap[WARM_ROUNDS - 1]! };
  return measurement(
    { what: `${CALLS} calls of a model at once, heap after ${ROUNDS} rounds`, unit: 'MB', against: `after ${WARM_ROUNDS} rounds`, bar: 1.1 },
    [pair],
  );
}

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '1' }, speed: { type: 'string', default: '1' }, json: { type: 'boolean' } },
});
report([await benchStep(Number(values.runs), Number(values.speed)), await benchCalls()]);
