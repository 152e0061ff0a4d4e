/**
 * Groups of episodes of visual-rag whose lengths and judge's delays are given, played in two ways: scored while other episodes run, or all played first and
 * then scored, without any part of the compared scoring.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Environment, Random, type RewardContext, Rubric } from 'vf-search';
import { judgeBy, type Model } from 'vf-search/environment-kit';
import { openRoleModels, type OpenedRoleModels, type Rollout, runRollouts, type RunOptions } from 'vf-search/rollouts';
import { loadEnvironment, type VisualRagEnv, type VisualRow } from 'vf-search/environments/visual-rag';
import { ScriptedClient } from '../../src/clients/scripted.ts';

export interface DeckWork {
  readonly groups: number;
  readonly members: number;
  /** Episodes at once. */
  readonly slots: number;
  /** Calls of the judge at once. */
  readonly judging: number;
  /** Duration of an episode, in milliseconds, for a number from 0 to 1 that belongs to it. */
  readonly episodeMs: (share: number) => number;
  /** Duration of a judge's call, in milliseconds. */
  readonly judgeMs: (share: number) => number;
}

/** The data with which a group was scored. */
export type ScoredMember = Pick<Rollout, 'rolloutId' | 'reward' | 'metrics' | 'state' | 'segments'>;

export class ScoredDeck implements AsyncDisposable {
  readonly #work: DeckWork;
  readonly #environment: VisualRagEnv;

  private constructor(work: DeckWork, environment: VisualRagEnv) {
    this.#work = work;
    this.#environment = environment;
  }

  static async open(work: DeckWork): Promise<ScoredDeck> {
    return new ScoredDeck(work, await loadEnvironment({ data_limit: work.groups, format_gate: 'ddai' }));
  }

  /** Every rollout in the order of its score, by the landed scoring. */
  async streamed(more: Partial<RunOptions<VisualRow>> = {}): Promise<ScoredMember[]> {
    await using models = await this.#models();
    return this.#play(this.#environment, { models, ...more });
  }

  /** All are played; then each is finished and scored, as many at once as the judge takes. */
  async batch(): Promise<ScoredMember[]> {
    const { signal } = new AbortController();
    const { rubric, eval: rows, roles, turnFormat, limits, baseline } = this.#environment;
    const start = this.#environment.start.bind(this.#environment);
    const unscored = {
      id: 'visual-rag',
      rubric: new Rubric<VisualRow>({ funcs: [] }),
      eval: rows,
      train: rows,
      roles,
      turnFormat,
      limits,
      baseline,
      start,
      close: async () => {},
    };
    await using models = await this.#models();
    const played = await this.#play(unscored, { models });
    return Promise.all(
      played.map(async (rollout) => {
        const { row, prompt, segments, stop } = rollout;
        const written = segments.filter(({ kind }) => kind === 'model');
        const context: RewardContext<VisualRow> = {
          row,
          prompt,
          segments,
          stop,
          state: rollout.state,
          parser: rubric.parser,
          models: models.models,
          signal,
          scoredText: segments.map(({ text }) => text).join(''),
          modelText: written.map(({ text }) => text).join(''),
        };
        const state = { ...rollout.state, ...(await this.#environment.finish(context)) };
        const { reward, metrics } = await rubric.score({ ...context, state });
        return { ...rollout, state, reward, metrics };
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#environment.close();
  }

  async #play(environment: Environment<VisualRow>, more: Partial<RunOptions<VisualRow>>): Promise<Rollout<VisualRow>[]> {
    const { groups, members, slots } = this.#work;
    const done: Rollout<VisualRow>[] = [];
    const indices = Array.from({ length: members }, (_, i) => i);
    const all = Array.from({ length: groups }, (_, i) => ({ row: this.#environment.eval.at(i), indices }));
    const run = runRollouts(all, {
      environment,
      client: this.#policy(),
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: slots,
      timeoutMs: null,
      seed: 0,
      signal: new AbortController().signal,
      onRollout: (rollout) => void done.push(rollout),
      ...more,
    });
    for await (const _ of run);
    return done;
  }

  #models(): Promise<OpenedRoleModels> {
    const { judging, judgeMs } = this.#work;
    // Any function of the judge's input, with scores that differ.
    const scores = judgeBy(({ answer, response }) => ({ score: response === answer ? 1 : shareOf(response), reason: '' }), 'slow judge');
    const judge: Model = {
      name: scores.name,
      async generate(messages, request) {
        await sleep(judgeMs(shareOf(JSON.stringify(messages))), undefined, { signal: request.signal });
        return scores.generate(messages, request);
      },
    };
    return openRoleModels({ generator: { model: this.#environment.roles['generator']!.builtin! }, judge: { model: judge, maxConcurrent: judging } });
  }

  /** Turns of every kind, different ones in every rollout. */
  #policy(): ScriptedClient {
    const { episodeMs } = this.#work;
    const questions = new Map([...this.#environment.eval].map(({ exampleId, info }) => [String(exampleId), info.question]));
    return new ScriptedClient({
      tokenizer: 'code-points',
      turns: async ({ index, key }) => {
        const turns = turnsOf(key!, questions.get(key!.slice(0, key!.lastIndexOf('/')))!);
        await sleep(episodeMs(shareOf(key!)) / turns.length);
        return turns[index]!;
      },
    });
  }
}

/** The members by name. */
export function inOrder(members: readonly ScoredMember[]): ScoredMember[] {
  return members
    .map(({ rolloutId, reward, metrics, state, segments }) => ({ rolloutId, reward, metrics, state, segments }))
    .toSorted((a, b) => (a.rolloutId < b.rolloutId ? -1 : 1));
}

function turnsOf(key: string, question: string): string[] {
  const random = Random.fromSeed(1).fork(key);
  const think = (action: string) => `<think>${key}</think>\n${action}`;
  const search = think(`<search>${[question, question.slice(0, question.length / 2), 'staff'][Math.floor(random.float() * 3)]}</search>`);
  const side = () => Math.floor(random.float() * 400);
  const [left, top] = [side(), side()];
  const box = think(`<bbox>[${left}, ${top}, ${left + 40 + side()}, ${top + 40 + side()}]</bbox>`);
  const middle = [[], [box], [box, search], ['no action'], [box, box]][Math.floor(random.float() * 5)]!;
  return [search, ...middle, think('<search_complete>true</search_complete>')];
}

/** A number from 0 to 1 that depends on the text. */
function shareOf(text: string): number {
  return Random.fromSeed(2).fork(text).float();
}
