/** The same rows on the same vLLM, greedily, over every protocol: one record by token ids, and the same words and rewards by messages. */
import { copyFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';
import { type OwnRun, ownRun, ROOT } from './own-run.ts';
import type { InspectRun, OpenEnvPlay } from './peer-outputs.ts';
import { v0Outputs } from './peer-outputs.ts';
import { describePeer, resultLine, runPeer, type ServedModel, servedModel } from './peer.ts';
import { serveCommand } from './serve-command.ts';

const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
const ROWS = 100;
/** Of a generation by token ids. */
const MOST_TOKENS = 48;
const folder = mkdtempSync(join(tmpdir(), 'vf-interop-identity-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const TIME = { timeoutMs: 300_000, env: { PYTHONPATH: `${ROOT}/python` } };

/** The tokenizer of the vLLM's model, with the chat template that the vLLM was started with. */
function tokenizerFolder(): string {
  const path = join(folder, 'tokenizer');
  cpSync(join(ROOT, 'test/models/nano-base'), path, { recursive: true });
  copyFileSync(join(ROOT, 'test/tokenizer/chatml.jinja'), join(path, 'chat_template.jinja'));
  return path;
}

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

/** Rows of vf-eval over messages, played once for all harnesses that speak them. */
let chat: Promise<OwnRun> | null = null;
afterAll(async () => (await chat)?.[Symbol.dispose]());

function evalArgs({ url, model }: ServedModel): string[] {
  return ['search-r1', '-b', url, '-m', model, '-n', String(ROWS), '-T', '0', '-a', WORLD];
}

function chatRun(served: ServedModel): Promise<OwnRun> {
  return (chat ??= ownRun([...evalArgs(served), '--api-client-type', 'chat']));
}

interface Spoken {
  readonly example_id: string;
  readonly reward: number | null;
  readonly metrics: Readonly<Record<string, number>> | null;
  readonly words: readonly string[];
}

/** The rows whose rewards, metrics or words are not those of our vf-eval, and a line about all. */
function comparedWords({ rows }: OwnRun, spoken: readonly Spoken[]) {
  const other = spoken.filter(({ example_id: id, ...theirs }) => {
    const { reward, metrics, completion } = rows.get(id)!;
    return !isDeepStrictEqual(theirs, { reward, metrics, words: wordsOf(completion) });
  });
  const mean = spoken.reduce((sum, { reward }) => sum + reward!, 0) / ROWS;
  const equal = spoken.length - other.length;
  return { other, line: `${equal} of ${ROWS} equal in words, metrics and rewards; mean reward ${mean.toFixed(2)}` };
}

/** Without the stop string at the end of a turn: where a server does not name it, vf-eval puts it back where its tag is open, and OpenEnv's client does not. */
function wordsOf(messages: readonly { readonly role: string; readonly content: string }[]): readonly string[] {
  return messages.map(({ role, content }) => `${role}: ${role === 'assistant' ? content.replace(/<\/search>$/, '') : content}`);
}

describePeer('verifiers', {}, () => {
  it('gives vf-eval, /v1/rollouts, /v1/episodes from Python and the wire of verifiers the same rollouts of a real vLLM', async () => {
    const served = await servedModel('vllm');
    const { url, model } = served;
    using own: OwnRun = await ownRun([...evalArgs(served), '-t', String(MOST_TOKENS)]);
    const exported = await own.exported();
    expect(exported.size).toBe(ROWS);
    await using server = await serveCommand(['environment', 'search-r1', '-a', WORLD, '--tokenizer', tokenizerFolder()]);
    await using wire = await serveCommand(['verifiers', 'search-r1', '-a', WORLD, '--allow-policy-key-var', 'VLLM_API_KEY'], {}, [
      '--bind',
      'tcp://127.0.0.1:0',
    ]);

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

describePeer('openenv', {}, () => {
  it('gives a client of OpenEnv the words and rewards of vf-eval by messages', async () => {
    const served = await servedModel('vllm');
    await using server = await serveCommand(['environment', 'search-r1', '-a', WORLD]);
    const own = await chatRun(served);
    const words = [server.url, served.url, served.model, '8', JSON.stringify([...own.rows.keys()]), 'openenv'];
    const { version, episodes } = await runPeer<OpenEnvPlay>('openenv', 'play', words, TIME);
    const spoken = episodes.map(({ completion, example_id, reward, metrics }) => ({ example_id, reward, metrics, words: wordsOf(completion) }));
    const { other, line } = comparedWords(own, spoken);
    expect({ rows: spoken.length, other }).toEqual({ rows: ROWS, other: [] });
    resultLine('identity', version, 'vf-eval by messages and a client of OpenEnv, vLLM, greedy', line);
  }, 900_000);
});

describePeer('inspect', {}, () => {
  it('gives Inspect AI the words and rewards of vf-eval by messages', async () => {
    const served = await servedModel('vllm');
    const own = await chatRun(served);
    const { version, samples } = await runPeer<InspectRun>(
      'inspect',
      'eval',
      [ROOT, served.url, '-T', 'env=search-r1', '-T', `args=${WORLD}`, '--limit', String(ROWS)],
      TIME,
    );
    const spoken = samples.map(({ id, scores, messages }) => {
      const { reward, ...metrics } = scores[0]!;
      const said = messages.map(([role, content]) => ({ role, content }));
      return { example_id: id, reward: reward!, metrics, words: wordsOf(said.slice(said.findIndex(({ role }) => role === 'assistant'))) };
    });
    const { other, line } = comparedWords(own, spoken);
    expect({ rows: spoken.length, other }).toEqual({ rows: ROWS, other: [] });
    resultLine('identity', version, 'vf-eval by messages and inspect eval, vLLM, greedy', line);
  }, 900_000);
});

describePeer('verifiers-v0', {}, () => {
  it('gives vf-eval of verifiers 0.1.14 the words and rewards of our vf-eval', async () => {
    const served = await servedModel('vllm');
    using own = await ownRun([...evalArgs(served), '-t', String(MOST_TOKENS)]);
    const args = JSON.stringify({ env: 'search-r1', ...(JSON.parse(WORLD) as object) });
    const count = ['-n', String(ROWS), '-r', '1', '-t', String(MOST_TOKENS)];
    const { version } = await runPeer<{ readonly version: string }>('verifiers-v0', 'vf_eval', [ROOT, folder, args, served.url, ...count], TIME);
    const spoken = v0Outputs(folder).map(({ info, reward, metrics, completion }) => ({
      example_id: info.example_id,
      reward,
      metrics,
      words: wordsOf(completion),
    }));
    const { other, line } = comparedWords(own, spoken);
    expect({ rows: spoken.length, other }).toEqual({ rows: ROWS, other: [] });
    resultLine('identity', version, 'vf-eval and vf-eval of verifiers 0.1.14, vLLM, greedy', line);
  }, 900_000);
});
