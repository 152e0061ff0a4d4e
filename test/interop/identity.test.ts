/** The same rows on the same vLLM, greedily and by token ids, over every protocol: one record. */
import { expect, it } from 'vitest';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';
import { type OwnRun, ownRun, ROOT } from './own-run.ts';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { serveCommand } from './serve-command.ts';

const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
const ROWS = 100;
const MOST_TOKENS = 48;
const TIME = { timeoutMs: 300_000, env: { PYTHONPATH: `${ROOT}/python` } };

interface Same {
  readonly example_id: string | number;
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly reward: number | null;
}

/** How many rollouts have the tokens, masks and rewards of our export, and the largest difference of a log-prob. */
function compared(rollouts: readonly Same[], exported: ReadonlyMap<string, RolloutExport>) {
  let equal = 0;
  let difference = 0;
  for (const rollout of rollouts) {
    const ours = exported.get(String(rollout.example_id))!;
    const of = ({ token_ids, loss_mask, reward }: Same) => JSON.stringify([token_ids, loss_mask, reward]);
    if (of(rollout) === of(ours)) equal += 1;
    for (const [i, value] of rollout.logprobs.entries()) {
      if (rollout.loss_mask[i] === 1) difference = Math.max(difference, Math.abs(value! - ours.logprobs[i]!));
    }
  }
  return { equal, difference };
}

function shown({ equal, difference }: ReturnType<typeof compared>): string {
  return `${equal} of ${ROWS} equal in ids, masks and rewards; log-probs within ${difference.toExponential(1)}`;
}

async function rolloutLines(url: string, policy: object, exampleIds: readonly string[]): Promise<readonly Same[]> {
  const body = { example_ids: exampleIds, policy, sampling: { temperature: 0, max_tokens: MOST_TOKENS } };
  const response = await fetch(`${url}/v1/rollouts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const lines = (await response.text()).trimEnd().split('\n');
  expect(JSON.parse(lines.pop()!)).toEqual({ done: true, finished: ROWS, failed: 0 });
  return lines.map((line) => JSON.parse(line) as Same);
}

interface Wired {
  readonly version: string;
  readonly episodes: readonly {
    readonly key: string;
    readonly token_ids: number[];
    readonly mask: number[];
    readonly logprobs: number[];
    readonly reward: number;
  }[];
}

describePeer('verifiers', {}, () => {
  it('gives vf-eval, /v1/rollouts, /v1/episodes from Python and the wire of verifiers the same rollouts of a real vLLM', async () => {
    const { url, model } = await servedModel('vllm');
    using own: OwnRun = await ownRun(['search-r1', '-b', url, '-m', model, '-n', String(ROWS), '-T', '0', '-t', String(MOST_TOKENS), '-a', WORLD]);
    const exported = await own.exported();
    expect(exported.size).toBe(ROWS);
    await using server = await serveCommand([
      'environment',
      'search-r1',
      '-a',
      WORLD,
      '--tokenizer',
      process.env['VF_IDENTITY_TOKENIZER'] ?? 'test/models/nano-base',
    ]);
    await using wire = await serveCommand(['verifiers', 'search-r1', '-a', WORLD], {}, ['--bind', 'tcp://127.0.0.1:0']);

    const asked = compared(await rolloutLines(server.url, { base_url: url, model }, [...exported.keys()]), exported);
    const words = [server.url, url, model, String(ROWS), String(MOST_TOKENS)];
    const stepped = compared(await runPeer<readonly Same[]>('verifiers', '../identity/episodes', words, TIME), exported);
    const { version, episodes } = await runPeer<Wired>('verifiers', 'env_client', ['rows', wire.url, url, String(ROWS), '{}'], TIME);
    const wired = compared(
      episodes.map(({ key, mask, ...episode }) => ({ ...episode, example_id: key, loss_mask: mask })),
      exported,
    );
    const mean = [...exported.values()].reduce((sum, { reward }) => sum + reward, 0) / ROWS;
    resultLine('identity', '-', 'vf-eval alone', `mean reward ${mean.toFixed(2)}`);
    resultLine('identity', '-', 'vf-eval and POST /v1/rollouts, vLLM, greedy', shown(asked));
    resultLine('identity', '-', 'vf-eval and /v1/episodes from Python, vLLM, greedy', shown(stepped));
    resultLine('identity', version, 'vf-eval and the wire of verifiers, vLLM, greedy', shown(wired));
    for (const { equal, difference } of [asked, stepped, wired]) {
      expect(equal).toBe(ROWS);
      expect(difference).toBeLessThan(1e-4);
    }
  }, 900_000);
});
