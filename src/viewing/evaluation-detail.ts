/** What a page shows of an evaluation: its settings, and the summary that `vf-eval --json` prints, computed again from the figures of its rollouts. */
import { figures } from '../evaluate/summary.ts';
import type { RecordedRollout } from '../evaluate/recorded-rollout.ts';
import { summaryToWire, type Summary } from '../schemas/summary.ts';
import { type Fields, factsOf, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { OpenRun } from './open-run.ts';
import type { RolloutTable } from './rollout-table.ts';
import { flatFields } from './rollout-reader.ts';
import type { Estimate, EvaluationDetail } from './view-wire.ts';

export async function evaluationDetail(run: OpenRun): Promise<EvaluationDetail> {
  const [line, sets, metadata] = await Promise.all([run.line(), run.sets(), run.settings().catch((): Fields => ({}))]);
  const table = await (await run.reader(sets[0]!)).table();
  const settings = flatFields(metadata);
  const summary = table.size === 0 ? null : summaryOf(table, settings, run.found.id);
  return {
    kind: 'evaluation',
    run: { ...line, done: Math.max(line.done, table.size), reward: (summary?.['reward'] ?? line.reward) as Estimate | null },
    facts: factsOfMetadata(settings),
    sets: sets.map(({ set }) => set),
    summary,
  };
}

function summaryOf(table: RolloutTable, metadata: Fields, directory: string): Record<string, unknown> {
  const perExample = numberOf(metadata['rollouts_per_example']) ?? 1;
  const seconds = numberOf(metadata['time']) ?? 0;
  const kind = textOf(fieldsOf(metadata['policy'])['kind']);
  const summary: Summary = {
    envId: textOf(metadata['env_id']) ?? '',
    model: textOf(metadata['model']) ?? '',
    policyKind: kind === 'tokens' || kind === 'none' ? kind : 'chat',
    directory,
    ...figures([...recorded(table)], { planned: numberOf(metadata['num_planned']) ?? table.size, rolloutsPerExample: perExample }),
    wallSeconds: seconds,
    rolloutsPerSecond: seconds === 0 ? null : table.size / seconds,
    sample: null,
    notices: [],
  };
  const { sample: _, ...wire } = summaryToWire(summary);
  const { roles, cost } = metadata;
  return { ...wire, ...(roles === undefined ? {} : { roles }), ...(cost === undefined ? {} : { cost }) };
}

/** The rollouts of a table, one at a time, each with what the summary reads. */
function* recorded(table: RolloutTable): Generator<RecordedRollout> {
  for (const row of table.rows) yield new TableRollout(table, row);
}

/** Holds no figures itself, so that 100,000 of them take little memory. */
class TableRollout implements RecordedRollout {
  readonly #table: RolloutTable;
  readonly #row: number;

  constructor(table: RolloutTable, row: number) {
    this.#table = table;
    this.#row = row;
  }

  get rolloutId() {
    return `${this.groupId}/${this.index}`;
  }

  get groupId() {
    return this.#table.name('group')(this.#row)!;
  }

  get index() {
    return this.#table.index(this.#row);
  }

  get task() {
    return this.#table.name('task')(this.#row);
  }

  get reward() {
    return this.#table.figures(this.#row).reward;
  }

  get metrics() {
    return this.#table.metrics(this.#row);
  }

  get error() {
    const type = this.#table.name('error')(this.#row);
    if (type === null) return null;
    const reason = this.#table.name('reason')(this.#row);
    return { type, message: this.#table.errorMessages.get(type) ?? '', ...(reason === null ? {} : { reason: reason as 'failed' }) };
  }

  get stop() {
    return this.#table.name('stop')(this.#row) ?? '';
  }

  get isTruncated() {
    return this.#table.figures(this.#row).isTruncated;
  }

  get isCut() {
    return false;
  }

  get turns() {
    return this.#table.figures(this.#row).turns;
  }

  get policy() {
    return { model: '', version: 0 };
  }

  get usage() {
    const { input, tokens, cached } = this.#table.figures(this.#row);
    return { inputTokens: input ?? 0, outputTokens: tokens ?? 0, cachedTokens: cached };
  }

  get cutObservations() {
    return 0;
  }

  get endedAtMs() {
    return 0;
  }
}

function factsOfMetadata(metadata: Fields): EvaluationDetail['facts'] {
  const config = fieldsOf(metadata['config']);
  const sampling = fieldsOf(config['sampling_args'] ?? metadata['sampling_args']);
  const policy = fieldsOf(metadata['policy']);
  const versions = fieldsOf(metadata['version_info']);
  return factsOf({
    environment: metadata['env_id'],
    'environment arguments': metadata['env_args'],
    model: metadata['model'],
    policy: policy['kind'],
    endpoint: policy['endpoint'] ?? metadata['base_url'],
    sampling,
    rows: metadata['num_examples'],
    'rollouts per row': metadata['rollouts_per_example'],
    seed: metadata['seed'],
    shuffled: metadata['shuffle'] === true ? metadata['shuffle_seed'] : null,
    'concurrent rollouts': metadata['max_concurrent'],
    'context of the model': policy['max_model_len'],
    tokenizer: policy['tokenizer_hash'],
    data: fieldsOf(metadata['environment'])['questions'] ?? metadata['environment'],
    sessions: listOf(metadata['sessions']).length,
    started: metadata['started_at'],
    updated: metadata['updated_at'],
    'seconds of work': numberOf(metadata['time'])?.toFixed(1),
    'version of vf-search': versions['vf_version'],
    commit: versions['vf_commit'],
    configuration: metadata['config_digest'],
  });
}
