import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ConfigError } from 'vf-search';
import { assert, constantFrom, double, integer, jsonValue, object, property, record, subarray, boolean } from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import {
  CRSP_KEYS,
  crspArguments,
  crspTrainingSettings,
  parseCrspConfig,
  readCrspConfig,
  TASK_KINDS,
} from '../../../environments/self-play-code/environment.ts';
import { crspNotices } from '../../../environments/self-play-code/crsp-settings.ts';

/** As the specification prints it. */
const DOCUMENT = `# Updated from azr_ppo_trainer.yaml to crsp_ppo_trainer.yaml
crsp:
  seed: 1
  executor_max_workers: 1
  executor_cleanup_frequency: 1
  problem_types:
    - code_i
    - code_o  
    - code_f
  # ... other CRSP-specific parameters

# New trajectory seeding section
trajectory_seeding:
  enabled: false
  limo_dataset_path: "GAIR/LIMO"
  seeding_steps: 1000
  learning_rate: 1e-5
  batch_size: 32

# Enhanced reward configuration
reward_structure:
  alpha_decay:
    enabled: true
    schedule_type: "rlsp_coupled"
  creativity_grading:
    enabled: true
    dimensions: ["novelty", "depth", "diversity", "persistence", "rigor"]
  length_reward:
    max_length: 2048
    penalty_threshold: 4096
`;

const DEFAULTS = parsedConfig(null);

function parsedConfig(document: unknown) {
  const parsed = parseCrspConfig(document);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.config;
}

function problemOf(document: unknown): string {
  const parsed = parseCrspConfig(document);
  expect(parsed.ok).toBe(false);
  return parsed.ok ? '' : parsed.problem;
}

describe('parseCrspConfig', () => {
  it("gives the specification's defaults for an empty document, and the same for the document itself", () => {
    expect(DEFAULTS).toEqual(parse(DOCUMENT));
    expect(parseCrspConfig(parse(DOCUMENT))).toEqual({ ok: true, config: DEFAULTS, givenKeys: CRSP_KEYS });
    for (const empty of [null, undefined, {}, { crsp: null, reward_structure: { alpha_decay: null } }])
      expect(parseCrspConfig(empty)).toEqual({ ok: true, config: DEFAULTS, givenKeys: [] });
  });

  it('completes a document that has some of the keys, and says which it has', () => {
    const parsed = parseCrspConfig({ reward_structure: { length_reward: { max_length: 512 } }, crsp: { problem_types: ['code_e'] } });
    expect(parsed).toMatchObject({ ok: true, givenKeys: ['crsp.problem_types', 'reward_structure.length_reward.max_length'] });
    expect(parsed.ok && parsed.config).toEqual({
      ...DEFAULTS,
      crsp: { ...DEFAULTS.crsp, problem_types: ['code_e'] },
      reward_structure: { ...DEFAULTS.reward_structure, length_reward: { max_length: 512, penalty_threshold: 4096 } },
    });
  });

  it('round-trips {any configuration} through YAML and JSON', () => {
    const count = integer({ min: 2, max: 1e6 });
    const configs = record({
      crsp: record({
        seed: integer({ min: 0, max: 2 ** 31 }),
        executor_max_workers: count,
        executor_cleanup_frequency: count,
        problem_types: subarray([...TASK_KINDS], { minLength: 1 }),
      }),
      trajectory_seeding: record({
        enabled: boolean(),
        limo_dataset_path: constantFrom('GAIR/LIMO', 'rows.jsonl', 'yes: no', '1e-5', '漢'),
        seeding_steps: count,
        learning_rate: double({ min: 1e-12, max: 1, noNaN: true }),
        batch_size: count,
      }),
      reward_structure: record({
        alpha_decay: record({ enabled: boolean(), schedule_type: constantFrom('rlsp_coupled') }),
        creativity_grading: record({ enabled: boolean(), dimensions: subarray(['novelty', 'depth', 'on', 'null', '1'], { minLength: 1 }) }),
        length_reward: record({ max_length: count, penalty_threshold: count }),
      }),
    });
    assert(
      property(configs, (config) => {
        for (const document of [parse(stringify(config)), JSON.parse(JSON.stringify(config))])
          expect(parseCrspConfig(document)).toEqual({ ok: true, config, givenKeys: CRSP_KEYS });
      }),
    );
  });

  it('names an unknown section or key, and what was probably meant', () => {
    expect(problemOf({ crsp: { sead: 1 } })).toBe(
      'The key crsp.sead is unknown (did you mean seed?). The keys of crsp are seed, executor_max_workers, executor_cleanup_frequency, problem_types',
    );
    expect(problemOf({ azr: {} })).toBe('The section azr is unknown. The sections are crsp, trajectory_seeding, reward_structure');
    expect(problemOf({ reward_structure: { length_rewards: {} } })).toContain('(did you mean length_reward?)');
    expect(problemOf(JSON.parse('{"__proto__": {"seed": 2}, "crsp": {"constructor": 1}}'))).toContain('__proto__ is unknown');
  });

  it.each([
    [{ crsp: { seed: -1 } }, 'crsp.seed must be an integer of at least 0, got -1'],
    [{ crsp: { seed: null } }, 'crsp.seed must be an integer of at least 0, got null'],
    [{ crsp: { executor_max_workers: 0 } }, 'crsp.executor_max_workers must be an integer of at least 1, got 0'],
    [{ crsp: { problem_types: [] } }, 'with at least one of them and none twice, got []'],
    [{ crsp: { problem_types: ['code_i', 'code_i'] } }, 'got ["code_i","code_i"]'],
    [{ crsp: { problem_types: 'code_i' } }, 'crsp.problem_types must be a list of code_i, code_o, code_f, code_e'],
    [{ trajectory_seeding: { learning_rate: 0 } }, 'trajectory_seeding.learning_rate must be a number above 0, got 0'],
    [{ trajectory_seeding: { learning_rate: '1e-5' } }, 'must be a number above 0, got "1e-5"'],
    [{ trajectory_seeding: { seeding_steps: 1.5 } }, 'trajectory_seeding.seeding_steps must be an integer of at least 1, got 1.5'],
    [{ trajectory_seeding: { enabled: 'no' } }, 'trajectory_seeding.enabled must be true or false, got "no"'],
    [{ reward_structure: { alpha_decay: { schedule_type: 'linear' } } }, 'schedule_type must be "rlsp_coupled", got "linear"'],
    [{ reward_structure: { creativity_grading: { dimensions: ['a', 'b\n'] } } }, 'must be a list of names'],
    [{ reward_structure: { length_reward: { max_length: 1 } } }, 'max_length must be an integer of at least 2, got 1'],
    [{ reward_structure: { length_reward: { penalty_threshold: Infinity } } }, 'penalty_threshold must be an integer of at least 1, got Infinity'],
    [{ crsp: [] }, 'crsp must hold keys with values, got []'],
    ['text', 'The document must hold keys with values, got "text"'],
  ])('refuses %j', (document, problem) => {
    expect(problemOf(document)).toContain(problem);
  });

  it('never throws, and reports in one line of bounded length, for {any document}', () => {
    const keyed = object({ key: constantFrom('crsp', 'reward_structure', 'length_reward', 'seed', 'max_length', 'x'.repeat(9999), '\n') });
    for (const documents of [jsonValue(), keyed])
      assert(
        property(documents, (document) => {
          const parsed = parseCrspConfig(document);
          if (parsed.ok) return;
          expect(parsed.problem.length).toBeLessThan(400);
          expect(parsed.problem).not.toContain('\n');
        }),
      );
  });
});

describe('readCrspConfig', () => {
  let folder: string;
  beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'crsp-'))));
  afterAll(() => rm(folder, { recursive: true }));

  it("reads the specification's YAML as it is printed there", async () => {
    const file = path.join(folder, 'crsp_ppo_trainer.yaml');
    await writeFile(file, DOCUMENT);
    expect(await readCrspConfig(file)).toEqual({ config: DEFAULTS, givenKeys: CRSP_KEYS });
    expect(await readCrspConfig(parse(DOCUMENT))).toEqual({ config: DEFAULTS, givenKeys: CRSP_KEYS });
  });

  it('names the file of a problem', async () => {
    const file = path.join(folder, 'wrong.yaml');
    await writeFile(file, 'crsp:\n  seed: one\n');
    await expect(readCrspConfig(file)).rejects.toThrow(new ConfigError(`${file}: crsp.seed must be an integer of at least 0, got "one".`));
    await expect(readCrspConfig(path.join(folder, 'none.yaml'))).rejects.toThrow(ConfigError);
  });
});

describe('crspArguments', () => {
  it('has what the document says to the environment', () => {
    expect(crspArguments(DEFAULTS)).toEqual({
      kinds: ['code_i', 'code_o', 'code_f'],
      workers: 1,
      schedule: 'rlsp_coupled',
      lengthReward: { maxLength: 2048, penaltyThreshold: 4096 },
      critique: { dimensions: ['novelty', 'depth', 'diversity', 'persistence', 'rigor'] },
    });
  });

  it('leaves out what the document does not say', () => {
    expect(crspArguments(DEFAULTS, [])).toEqual({});
    expect(crspArguments(DEFAULTS, ['reward_structure.length_reward.max_length'])).toEqual({
      lengthReward: { maxLength: 2048, penaltyThreshold: 4096 },
    });
  });

  it('keeps the weights constant without the decay, and has no critics without grading', () => {
    const config = parsedConfig({ reward_structure: { alpha_decay: { enabled: false }, creativity_grading: { enabled: false } } });
    expect(crspArguments(config)).toMatchObject({ schedule: 'constant', critique: null });
  });
});

describe('crspTrainingSettings', () => {
  it('gives vf-train the seed, if the document has one', () => {
    expect(crspTrainingSettings(parsedConfig({ crsp: { seed: 7 } }), ['crsp.seed'])).toEqual([{ argument: 'crsp.seed', key: 'seed', value: 7 }]);
    expect(crspTrainingSettings(DEFAULTS, ['crsp.problem_types'])).toEqual([]);
  });
});

describe('crspTrainingSettings with trajectory_seeding', () => {
  const settingsOf = (seeding: object) =>
    Object.fromEntries(crspTrainingSettings(parsedConfig({ trajectory_seeding: seeding }), []).map(({ key, value }) => [key, value]));

  it('gives the supervised steps of the document and their loss, if it is enabled', () => {
    const own = { enabled: true, limo_dataset_path: 'own.jsonl', seeding_steps: 20, learning_rate: 2e-5, batch_size: 4 };
    const aggregation = { 'sft.aggregation': 'sequence_mean_token_sum' };
    expect(settingsOf(own)).toEqual({ ...aggregation, 'sft.problems': 'own.jsonl', 'sft.steps': 20, 'sft.learning_rate': 2e-5, 'sft.batch_size': 4 });
    expect(settingsOf({ enabled: true })).toEqual({
      ...aggregation,
      'sft.problems': 'GAIR/LIMO',
      'sft.steps': 1000,
      'sft.learning_rate': 1e-5,
      'sft.batch_size': 32,
    });
    expect(settingsOf({ ...own, enabled: false })).toEqual({});
  });
});

describe('crspNotices', () => {
  const noticesOf = (document: object, purpose: 'evaluation' | 'training') => {
    const parsed = parseCrspConfig(document);
    return parsed.ok ? crspNotices(parsed, purpose) : [parsed.problem];
  };

  it('says what changes nothing: the clean-up of an executor, and the seeding in an evaluation', () => {
    const cleanUp = expect.stringMatching(/^crsp\.executor_cleanup_frequency changes nothing: every program runs/) as string;
    const seeding = expect.stringMatching(/^trajectory_seeding takes place in vf-train/) as string;
    const document = { crsp: { executor_cleanup_frequency: 1 }, trajectory_seeding: { enabled: true } };
    expect([noticesOf(document, 'training'), noticesOf(document, 'evaluation')]).toEqual([[cleanUp], [cleanUp, seeding]]);
    expect(noticesOf({ crsp: { seed: 1 } }, 'evaluation')).toEqual([]);
  });
});
