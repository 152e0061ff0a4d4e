/** The steps of rounds as they would be made, with the budget of each training: what `vf-rounds run --dry-run` prints. Writes nothing. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { hideSecrets } from '../../transport/redact.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { countRows } from '../row-files.ts';
import { plainTable } from '../report-text.ts';
import { type TrainingContext, trainingConfigOf } from './check-trainings.ts';
import { focusedAt, type RoundsConfig } from './rounds-config.ts';

interface PlannedStep {
  readonly key: string;
  /** What it reads and makes, in words. */
  readonly what: string;
  /** Null for a stage. */
  readonly training: TrainingConfig | null;
}

const HEAD = ['step', 'what', 'prompts x rollouts', 'steps', 'arguments that differ', 'state'];

/** `rows`: the file with the rows of phase 1. `done`: keys of the steps that an earlier process finished. */
export async function roundsPlan(config: RoundsConfig, rows: string, { done, ...context }: TrainingContext & { readonly done: ReadonlySet<string> }) {
  const steps = await plannedSteps(config, await countRows(rows), context);
  const trainings = steps.flatMap(({ training }) => (training === null ? [] : [training]));
  const table = steps.map(({ key, what, training }) => {
    const state = done.has(key) ? 'done' : '';
    if (training === null) return [key, what, '', '', '', state];
    const { examplesPerStep, rolloutsPerExample } = training.rollouts;
    return [key, what, `${examplesPerStep} x ${rolloutsPerExample}`, String(training.steps), differingArguments(training, trainings, config), state];
  });
  return plainTable({ head: HEAD, rows: table });
}

async function plannedSteps(config: RoundsConfig, count: number, context: TrainingContext): Promise<readonly PlannedStep[]> {
  const { phase1, review, verify, vet, rewrite, rounds, sft } = config;
  const stage = (key: string, what: string): PlannedStep => ({ key, what, training: null });
  const when = (isPlanned: boolean, ...steps: readonly PlannedStep[]) => (isPlanned ? steps : []);
  const steps: PlannedStep[] = [
    { key: '1/phase1', what: `train ${count} rows`, training: await trainingConfigOf(config, phase1, context) },
    stage('1/bucket', 'divide the rows by NDCG'),
    ...when(review !== null, stage('1/review', 'leave out rows of bucket 0'), stage('1/focus', 'add the others to bucket A')),
  ];
  for (let round = 1; round <= rounds; round++) {
    const [table, name] = focusedAt(config, round);
    const what = `train ${round > 1 ? 'the hard prompts' : review === null ? 'bucket A' : 'bucket A and bucket 0'}, ${name}`;
    steps.push(
      { key: `${round}/focused`, what, training: await trainingConfigOf(config, table, context) },
      stage(`${round}/extract`, 'rare successes'),
      ...when(vet !== null, stage(`${round}/vet`, 'vet them, if there are some')),
      ...when(rewrite !== null, stage(`${round}/rewrite`, 'word their thinks, if there are some')),
      stage(`${round}/finalize`, 'demonstrations'),
      stage(
        `${round}/sft`,
        `supervised steps, if there are demonstrations; from the adapter of ${sft.from === 'start' ? "the round's start" : 'the focused training'}`,
      ),
    );
    if (round === rounds) break;
    steps.push(
      ...when(verify !== null, stage(`${round + 1}/verify`, 'find wrong references')),
      stage(`${round + 1}/focus`, `hard prompts${verify === null ? '' : ', without wrong references'}`),
    );
  }
  return steps;
}

/** The environment's arguments that some training has otherwise, such as the number of turns, as JSON without secrets. */
function differingArguments({ environment }: TrainingConfig, trainings: readonly TrainingConfig[], { rowsArgument }: RoundsConfig): string {
  const differs = (name: string) => new Set(trainings.map((each) => canonicalJson(each.environment.args[name] ?? null))).size > 1;
  const names = new Set(trainings.flatMap((each) => Object.keys(each.environment.args)));
  const shown = [...names].filter((name) => name !== rowsArgument && environment.args[name] !== undefined && differs(name));
  return shown.length === 0 ? '' : JSON.stringify(hideSecrets(Object.fromEntries(shown.map((name) => [name, environment.args[name]]))));
}
