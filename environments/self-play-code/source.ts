/**
 * The batches of self-play. A step has several phases, and each is on file as soon as it is played: proposals, their solutions (probes, which also measure them),
 * solutions of replayed programs, critiques. Proposals get their rewards when others have played them. The rows of a step are a function of its number, the run's
 * seed and the buffer, which a checkpoint holds; so a repeated step has the same rows, and plays only the missing rollouts.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, Random } from 'vf-search';
import {
  type CreateSource,
  type DeclareRoles,
  type PhasePlan,
  type PlayedRole,
  type SourceContext,
  type Trajectory,
  type TrajectoryBatch,
  type TrajectorySource,
  withReward,
} from 'vf-search/trainer';
import { withBonuses } from './bonuses.ts';
import { ProgramBuffer } from './buffer.ts';
import { criticRows, payCriticised, retryRows, rowIdOf, type Solution, solutionOf, textOf } from './critics.ts';
import { countRepeats, INVALID_REWARD, mean, type ProbedProposal, probedReward, type Proposal, type ProposalResult } from './proposals.ts';
import type { ProposalRequest } from './examine-proposal.ts';
import type { IoRecord, Role, TaskRecord } from './records.ts';
import { alphaSchedule } from './rewards.ts';
import { SelfPlayEnv } from './self-play-env.ts';
import type { SelfPlaySettings } from './settings.ts';
import { exampleNotes, proposalValues, programRecords } from './step-report.ts';
import { planProposals, probeRows, replayRows } from './step-rows.ts';

const FILE = 'programs.json';

/** Throws ConfigError for an environment whose rewards are for evaluation. */
export const createSource: CreateSource = (context) => {
  const { environment } = context;
  if (!(environment instanceof SelfPlayEnv))
    throw new ConfigError('The source of self-play-code needs its own environment. Train self-play-code, without --set source.');
  if (environment.settings.rewards === 'accuracy')
    throw new ConfigError('rewards = "accuracy" is for evaluation: it pays no proposal. Set environment.args.rewards to "azr" or "crsp".');
  return new SelfPlaySource(context, environment);
};

/** `critic` was the name of the third role; settings may still use it. */
export const playedRoles: DeclareRoles = ({ environment }) => {
  const settings = environment instanceof SelfPlayEnv ? environment.settings : null;
  const isGiven = environment instanceof SelfPlayEnv && environment.proposalsOf(1, 0) !== null;
  return {
    propose: { isTrained: settings?.trainPropose !== false && !isGiven },
    solve: {},
    critique: { aliases: ['critic'], isTrained: settings === null || (settings.rewards === 'crsp' && settings.critics > 0) },
  } satisfies Record<Role, PlayedRole>;
};

class SelfPlaySource implements TrajectorySource {
  readonly #context: SourceContext;
  readonly #environment: SelfPlayEnv;
  readonly #settings: SelfPlaySettings;
  readonly #buffer: ProgramBuffer;
  readonly #replay: number;

  /** All rollouts of the step that is being taken. */
  #played: Trajectory[] = [];

  constructor(context: SourceContext, environment: SelfPlayEnv) {
    this.#context = context;
    this.#environment = environment;
    this.#settings = environment.settings;
    this.#buffer = new ProgramBuffer(this.#settings);
    this.#replay = this.#settings.replay ?? (this.#settings.trainProbes ? 0 : context.config.rollouts.examplesPerStep);
    this.#buffer.add(environment.seeds.map((record) => ({ record, step: 0, accuracy: null })));
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    this.#played = [];
    const { trainProbes, trainPropose } = this.#settings;
    const proposals = await this.#propose(step, signal);
    const probed = await this.#probe(step, proposals, signal);
    const valid = probed.proposals;
    this.#buffer.add(
      valid.flatMap(({ result, accuracies }) => (accuracies.length === 0 ? [] : [{ record: result.record, step, accuracy: mean(accuracies) }])),
    );
    const replayed = await this.#replayed(step, valid.length === 0, signal);
    const trained = [...(trainProbes ? probed.solutions : []), ...replayed];
    const solved = this.#settings.rewards === 'crsp' ? await this.#criticised(step, trained, signal) : null;
    const paid = this.#paid(proposals, valid);
    const trajectories = [
      ...(trainPropose ? paid : []),
      ...(solved?.solutions ?? trained.map(({ trajectory }) => trajectory)),
      ...(solved?.critiques ?? []),
    ];
    const returned = new Set([...trajectories, ...paid].map(({ ids }) => ids));
    return {
      trajectories,
      discarded: [...(trainPropose ? [] : paid), ...this.#played.filter(({ ids }) => !returned.has(ids))],
      attempts: 1,
      values: {
        ...proposalValues(proposals, valid, probed.solutions),
        ...solved?.values,
        'source/buffer': this.#buffer.size,
        'source/execution_seconds': this.#environment.takeExecutionSeconds(),
      },
      notes: [
        ...(valid.length === 0
          ? [`No proposal of step ${step} is valid, so the solver plays ${plural(replayed.length, 'solution')} of earlier programs.`]
          : []),
        ...exampleNotes(this.#own(step), valid, this.#context.config.steps),
      ],
      records: { programs: programRecords(valid) },
    };
  }

  needsPolicy(step: number): boolean {
    const { rewards, critics } = this.#settings;
    const phases = ['propose', 'solve', ...(this.#replay > 0 ? ['replay'] : []), ...(rewards === 'crsp' && critics > 0 ? ['critic', 'retry'] : [])];
    const isRecorded = (at: number, phase: string) => this.#context.isRecorded(at, phase);
    if (!phases.every((phase) => isRecorded(step, phase))) return true;
    // Only the proposals of a step show whether it had to replay; a later step on file shows that it was complete.
    return !isRecorded(step, 'replay') && !isRecorded(step + 1, 'propose');
  }

  async saveState(directory: string): Promise<void> {
    await writeFile(join(directory, FILE), JSON.stringify(this.#buffer.toState()));
  }

  async loadState(directory: string): Promise<void> {
    const text = await readFile(join(directory, FILE), 'utf8');
    this.#buffer.load(text);
  }

  async #propose(step: number, signal: AbortSignal): Promise<Proposal[]> {
    const given = this.#environment.proposalsOf(step, this.#context.config.rollouts.examplesPerStep);
    const { kinds, references } = this.#settings;
    const plan = {
      step,
      kinds,
      count: given === null ? this.#context.config.rollouts.examplesPerStep : 0,
      references,
      random: this.#random(step, 'propose'),
    };
    const planned = planProposals(this.#buffer, plan, this.#settings);
    const rows = planned.map(({ row }) => row);
    const { trajectories } = await this.#play({ step, phase: 'propose', role: 'propose', rows, rolloutsPerExample: 1, isPaidLater: true }, signal);
    if (given !== null) return Promise.all(given.map((record, i) => this.#given(`given-${step}-${i}`, record, signal)));
    return Promise.all(
      planned.map(async ({ row: { exampleId, info }, references: shown }, i) => {
        const trajectory = trajectories[i]!;
        const program = info.role === 'propose' ? info.program : null;
        const result = await this.#examined(trajectory, { kind: info.kind, program }, signal);
        return { id: String(exampleId), kind: info.kind, trajectory, result, ...(await this.#measured(result, shown, signal)) };
      }),
    );
  }

  /** Compared with the programs of earlier steps, because this step's are not in the buffer yet. */
  async #measured(result: ProposalResult, references: readonly IoRecord[], signal: AbortSignal): Promise<Pick<Proposal, 'measures'>> {
    if (this.#settings.bonuses === null || result.kind !== 'valid') return {};
    const { record } = result;
    return { measures: await this.#environment.measure(record, references, this.#buffer.values(record.kind), signal) };
  }

  async #given(id: string, record: TaskRecord, signal: AbortSignal): Promise<Proposal> {
    const isHeldOut = await this.#environment.isHeldOut(record, signal);
    return { id, kind: record.kind, trajectory: null, result: isHeldOut ? { kind: 'held_out' } : { kind: 'valid', record } };
  }

  async #examined(trajectory: Trajectory, asked: ProposalRequest, signal: AbortSignal): Promise<ProposalResult> {
    return trajectory.error === null ? this.#environment.examine(textOf(trajectory), asked, signal) : { kind: 'failed' };
  }

  /** Plays each valid proposal; plays nothing if there is none. */
  async #probe(step: number, proposals: readonly Proposal[], signal: AbortSignal): Promise<{ proposals: ProbedProposal[]; solutions: Solution[] }> {
    const valid = proposals.filter((proposal): proposal is ProbedProposal => proposal.result.kind === 'valid');
    const solutions = await this.#solved({ step, phase: 'solve', rows: probeRows(valid, this.#settings) }, signal);
    const byRow = Map.groupBy(solutions, ({ trajectory }) => rowIdOf(trajectory));
    const repeats = countRepeats(
      this.#buffer,
      valid.map(({ result }) => result.record),
    );
    const probed = valid.map((proposal, i) => {
      const own = byRow.get(`solve-${proposal.id}`) ?? [];
      return {
        ...proposal,
        isRepeated: repeats[i]!,
        accuracies: own.flatMap(({ trajectory, accuracy }) => (trajectory.error === null ? [accuracy] : [])),
      };
    });
    return { proposals: probed, solutions };
  }

  async #replayed(step: number, isAlone: boolean, signal: AbortSignal): Promise<Solution[]> {
    if (this.#replay === 0 && !isAlone) return [];
    const { kinds, mix, trainProbes } = this.#settings;
    const count = this.#replay === 0 ? this.#context.config.rollouts.examplesPerStep : this.#replay;
    // If this step's programs were played as probes, the programs of the step before are the new ones.
    const plan = {
      step,
      kinds,
      count,
      mix,
      newSince: trainProbes ? step - 1 : step,
      before: trainProbes ? step : Infinity,
      random: this.#random(step, 'replay'),
    };
    return this.#solved({ step, phase: 'replay', rows: replayRows(this.#buffer, plan, this.#settings) }, signal);
  }

  async #solved({ rows, ...plan }: { step: number; phase: string; rows: ReturnType<typeof probeRows> }, signal: AbortSignal): Promise<Solution[]> {
    const isPaidLater = this.#settings.rewards === 'crsp';
    const { trajectories } = await this.#play({ ...plan, role: 'solve', rows, ...(isPaidLater ? { isPaidLater } : {}) }, signal);
    const kinds = new Map(rows.map(({ exampleId, info }) => [String(exampleId), info.kind]));
    return trajectories.map((trajectory) => solutionOf(trajectory, kinds.get(rowIdOf(trajectory))!, this.#settings));
  }

  async #criticised(step: number, solutions: readonly Solution[], signal: AbortSignal): Promise<ReturnType<typeof payCriticised>> {
    const { critics, schedule, lengthReward } = this.#settings;
    const { steps } = this.#context.config;
    const alphas = alphaSchedule(schedule === 'constant' ? steps : this.#own(step) - 1, steps);
    const play = async (phase: string, rows: ReturnType<typeof criticRows>, rolloutsPerExample: number) =>
      (await this.#play({ step, phase, role: 'critique', rows, rolloutsPerExample, isPaidLater: true }, signal)).trajectories;
    const rows = critics === 0 ? [] : criticRows(solutions, this.#settings);
    const first = critics === 0 ? [] : await play('critic', rows, critics);
    const retried = critics === 0 ? [] : await play('retry', retryRows(rows, first, this.#settings), 1);
    return payCriticised(solutions, [first, retried], { settings: this.#settings, alphas, lengthReward });
  }

  /** Proposals with their rewards: without those that failed, were held out, or have no finished probe. */
  #paid(proposals: readonly Proposal[], valid: readonly ProbedProposal[]): Trajectory[] {
    const { rewards, novelty, bonuses } = this.#settings;
    const options = { rewards: rewards === 'crsp' ? rewards : 'azr', novelty } as const;
    const probed = new Map(valid.map((proposal) => [proposal.id, proposal]));
    return proposals.flatMap(({ id, trajectory, result, measures = {} }) => {
      if (trajectory === null || result.kind === 'failed' || result.kind === 'held_out') return [];
      if (result.kind === 'invalid') return [withReward(trajectory, INVALID_REWARD, {})];
      const reward = probedReward(probed.get(id)!, options);
      if (reward === null) return [];
      const accuracy = mean(probed.get(id)!.accuracies);
      return [
        withReward(trajectory, bonuses === null ? reward : withBonuses(reward, measures, bonuses), { accuracy_of_probes: accuracy, ...measures }),
      ];
    });
  }

  async #play(plan: PhasePlan, signal: AbortSignal): Promise<TrajectoryBatch> {
    const batch = await this.#context.play(plan, signal);
    this.#played.push(...batch.trajectories);
    return batch;
  }

  /** The number of a step without the supervised steps before the first one. */
  #own(step: number): number {
    return step - this.#context.stepsBefore;
  }

  #random(step: number, phase: string): Random {
    return Random.fromSeed(this.#context.config.seed).fork(`self-play step ${step}, ${phase}`);
  }
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
