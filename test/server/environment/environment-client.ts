/** A running environment server, and requests to it as a caller of another language would send them. */
import { vi } from 'vitest';
import { Dataset, type Row } from '../../../src/core/dataset.ts';
import type { Environment, EpisodeOptions, StepContext } from '../../../src/core/environment.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../../src/core/multi-turn.ts';
import { groupReward, metric, reward, Rubric } from '../../../src/core/rubric.ts';

import { type EnvironmentServerOptions, startEnvironmentServer } from '../../../src/server/environment/start-environment-server.ts';
import type { ServedPoliciesOptions } from '../../../src/server/environment/served-policies.ts';
import { NANO_PATH } from '../policy/nano-server.ts';
import { type LocalTokenizer, openLocalTokenizer } from '../../../src/tokenizer/local-tokenizer.ts';
import { templateTraits } from '../../../src/tokenizer/template-traits.ts';

export const tokenizer: LocalTokenizer = await openLocalTokenizer(NANO_PATH);

interface TalkOptions {
  readonly rows?: number;
  /** Members of a group share their rewards. */
  readonly hasGroupRewards?: boolean;
  readonly turnFormat?: 'continuation' | 'chat';
  readonly maxTurns?: number;
  /** Columns of every row. */
  readonly labels?: Pick<Row, 'task' | 'role'>;
  /** Awaited in each step, to fail or to wait. */
  readonly onStep?: (kept: string, signal: AbortSignal) => Promise<void> | void;
  /** Rewards of the turns, by their number from 1. */
  readonly turnRewards?: Readonly<Record<number, number>>;
}

/** Repeats what the policy says until it says `done;`. The reward is the number of turns; in a group, the share of the group's turns. */
export class TalkEnv extends MultiTurnEnv {
  readonly #onStep: TalkOptions['onStep'];
  readonly #turnRewards: NonNullable<TalkOptions['turnRewards']>;

  constructor({
    rows = 4,
    hasGroupRewards = false,
    turnFormat = 'continuation',
    maxTurns = 100,
    labels = {},
    onStep,
    turnRewards = {},
  }: TalkOptions = {}) {
    const all: Row[] = Array.from({ length: rows }, (_, i) => ({
      exampleId: `row-${i}`,
      prompt: [{ role: 'user', content: `Talk about ${i}.` }],
      answer: `${i}`,
      ...labels,
    }));
    const turns = (c: { segments: readonly { kind: string }[] }) => c.segments.filter(({ kind }) => kind === 'model').length;
    const share = groupReward((contexts) => contexts.map((c) => turns(c) / contexts.reduce((sum, each) => sum + turns(each), 0)), { name: 'share' });
    super({
      id: 'talk',
      train: new Dataset('talk-train', all.slice(0, 2)),
      eval: new Dataset('talk', all),
      rubric: new Rubric({
        funcs: [hasGroupRewards ? share : reward(turns, { name: 'turns' }), metric(({ modelText }) => modelText.length, { name: 'chars' })],
      }),
      maxTurns,
      turnFormat,
      limits: { responseTokens: 200 },
      stop: [';'],
    });
    this.#onStep = onStep;
    this.#turnRewards = turnRewards;
  }

  protected setupState(_row: Row, _options: EpisodeOptions): EpisodeState {
    return { turns: 0 };
  }

  protected override keep(sampled: string): number {
    const end = sampled.indexOf(';');
    return end === -1 ? sampled.length : end + 1;
  }

  protected async envResponse(kept: string, { turns }: EpisodeState, { signal }: StepContext): Promise<EnvResponse> {
    await this.#onStep?.(kept, signal);
    const value = this.#turnRewards[turns];
    const rewarded = value === undefined ? {} : { reward: value };
    return kept.includes('done') ? { ...rewarded, done: true } : { ...rewarded, observation: ` you said ${kept}` };
  }
}

/** Time that `setTimeout` counts only when a test lets it pass, until disposed: no limit is reached because a machine is busy. */
export function stillTime(): Disposable & { readonly pass: (ms: number) => void } {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  return { pass: (ms) => void vi.advanceTimersByTime(ms), [Symbol.dispose]: () => void vi.useRealTimers() };
}

export const noPolicies: ServedPoliciesOptions = {
  open: () => Promise.reject(new Error('No policy server in this test')),
  readSampling: () => ({ sampling: { temperature: 1, topP: 1 }, maxTokens: null }),
};

/** What a server answered, whose shape each test claims. */
// oxlint-disable-next-line typescript/no-explicit-any -- the tests say what they expect of it
export type Answer = any;

export interface EnvironmentClient extends AsyncDisposable {
  readonly url: string;
  readonly failures: unknown[];
  /** `[status, body]` */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<readonly [number, Answer]>;
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<readonly [number, Answer]>;
  /** Begins episodes and gives their first turns. */
  begin(exampleIds: readonly (string | { example_id: string; group_id: string })[], kind?: 'tokens' | 'chat', policy?: object): Promise<Answer[]>;
  /** Steps with these samples and gives the answers. */
  step(...entries: readonly object[]): Promise<Answer[]>;
  /** The step with this text's tokens. */
  sample(turn: Answer, text: string, changes?: object): Promise<object>;
}

export async function environmentClient(environment: Environment, options: Partial<EnvironmentServerOptions> = {}): Promise<EnvironmentClient> {
  const failures: unknown[] = [];
  const server = await startEnvironmentServer({
    environment,
    split: 'eval',
    tokenizer: { tokenizer, traits: { ...(await templateTraits(tokenizer)), tokenizerHash: 'sha256:nano' } },
    callerModels: () => null,
    policies: noPolicies,
    redact: (text) => text.replaceAll('hunter2', '***'),
    host: '127.0.0.1',
    port: 0,
    apiKey: null,
    version: '1.2.3',
    onFailure: (error) => void failures.push(error),
    ...options,
  });
  const answered = async (response: Response) => [response.status, await response.json()] as const;
  const post: EnvironmentClient['post'] = async (path, body, headers = {}) =>
    answered(
      await fetch(server.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    );
  const episodes = async (path: string, body: unknown) => {
    const [status, answer] = await post(path, body);
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(answer)}`);
    return answer.episodes as Answer[];
  };
  return {
    url: server.url,
    failures,
    post,
    get: async (path, headers = {}) => answered(await fetch(server.url + path, { headers })),
    begin: (exampleIds, kind = 'tokens', policy = {}) =>
      episodes('/v1/episodes', { policy: { kind, ...policy }, episodes: exampleIds.map((id) => (typeof id === 'string' ? { example_id: id } : id)) }),
    step: (...entries) => episodes('/v1/episodes/step', { episodes: entries }),
    sample: async ({ episode_id, turn }, text, changes = {}) => {
      const token_ids = [...(await tokenizer.encode(text)).ids];
      return { episode_id, turn, token_ids, logprobs: token_ids.map((_, i) => -0.25 * (i + 1)), finish_reason: 'stop', ...changes };
    },
    [Symbol.asyncDispose]: () => server.close({ graceMs: 0 }),
  };
}

/** Episodes that are being played, as the server says. */
export async function liveEpisodes(server: EnvironmentClient): Promise<number> {
  const [, { episodes }] = await server.get('/health');
  return episodes;
}
