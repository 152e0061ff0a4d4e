import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const BASE = {
  source: 'run.toml',
  table: { environment: { id: 'search-r1' }, model: { path: 'models/nano-base' }, policy: { base_url: 'http://h/v1' } },
};

const layer = (table: Record<string, unknown>, source = '--set') => ({ source, table });
const resolve = (...tables: Record<string, unknown>[]) => resolveTrainingConfig([BASE, ...tables.map((table) => layer(table))]);

describe('resolveTrainingConfig', () => {
  it('fills in every default of the schema and spells it in camelCase', () => {
    const { config, wire, origin } = resolve();
    expect(config).toMatchObject({
      name: 'search-r1-nano-base',
      steps: 100,
      lora: { rank: 16, alpha: 32 },
      rollouts: { examplesPerStep: 64, maxStaleness: 0, timeoutS: 600 },
      algorithm: { oldLogProbs: 'sampler', loss: { clipLow: 0.2, dualClip: null }, kl: { coefficient: 0 } },
      optimizer: { learningRate: 4e-5, warmupSteps: 0, warmupRatio: null },
      policy: { launch: null, baseUrl: 'http://h/v1' },
    });
    expect(wire.algorithm.loss.log_ratio_clamp).toBe(20);
    expect([origin('lora.rank'), origin('policy.base_url'), origin('environment.id')]).toEqual(['default', 'run.toml', 'run.toml']);
  });

  it('lets later layers win, key by key, and remembers where each value came from', () => {
    const { wire, origin } = resolveTrainingConfig([
      BASE,
      layer({ environment: { args: { topk: 3, dataset: 'nq' } }, lora: { rank: 8 } }, 'a'),
      layer({ environment: { args: { topk: 5 } }, lora: { alpha: 16 }, policy: { base_url: ['http://x/v1', 'http://y/v1'] } }, 'b'),
    ]);
    expect(wire.environment.args).toEqual({ topk: 5, dataset: 'nq' });
    expect([wire.lora.rank, wire.lora.alpha]).toEqual([8, 16]);
    expect(wire.policy.base_url).toEqual(['http://x/v1', 'http://y/v1']);
    expect(['environment.args.topk', 'environment.args.dataset', 'lora.rank', 'lora.alpha'].map(origin)).toEqual(['b', 'a', 'a', 'b']);
    expect(origin('environment.args')).toBe('a, b');
  });

  it("lets a policy server that any later layer names take the place of a preset's", () => {
    const preset = presetLayer(presetNamed('laptop', null));
    const withServer = (policy: object) => resolveTrainingConfig([preset, layer({ policy })]).wire.policy;
    expect(resolveTrainingConfig([preset]).wire.policy.embedded).toMatchObject({ threads: null, max_restarts: 5 });
    expect(withServer({ base_url: 'http://h/v1' })).toMatchObject({ base_url: 'http://h/v1', launch: null, embedded: null });
    expect(withServer({ launch: {} })).toMatchObject({ base_url: null, launch: { python: 'python3' }, embedded: null });
    expect(withServer({ embedded: { threads: 2 } })).toMatchObject({ base_url: null, launch: null, embedded: { threads: 2 } });
  });

  it('accepts the defaults of the torch worker with the embedded backend: a recorded configuration has every key', () => {
    const backend = { kind: 'embedded', python: 'python3', device: 'cpu', dtype: 'float32' };
    expect(resolve({ backend }).wire.backend).toMatchObject(backend);
  });

  it('fills in [policy.launch] only where it is asked for', () => {
    const { wire } = resolve(
      { policy: { base_url: null, launch: { env: { A: '1' } } } },
      { policy: { launch: { env: { B: '2' }, python: '/venv/bin/python' } } },
    );
    expect(wire.policy.launch).toEqual({
      python: '/venv/bin/python',
      replicas: 1,
      tensor_parallel_size: 1,
      sleep: false,
      args: [],
      env: { A: '1', B: '2' },
      ready_timeout_s: 900,
      max_restarts: 5,
    });
  });

  it('drops the arguments of an environment that a later layer replaces', () => {
    const { wire } = resolve(
      { environment: { args: { topk: 3 }, eval_args: { data_split: 'test' } } },
      { environment: { id: 'mine', args: { rows: 4 } } },
    );
    expect(wire.environment).toEqual({ id: 'mine', args: { rows: 4 }, eval_args: {} });
  });

  it('reads "none" as null where a number may be null, and nowhere else', () => {
    expect(resolve({ optimizer: { max_grad_norm: 'none' } }).wire.optimizer.max_grad_norm).toBeNull();
    expect(resolve({ model: { initial_adapter: 'none' } }).wire.model.initial_adapter).toBe('none');
    expect(() => resolveTrainingConfig([{ source: '--steps', table: { steps: 'x' } }])).toThrow('--steps must be an integer of at least 0, got "x"');
    const role = layer({ roles: { judge: { max_concurrent: 0 } } }, '--role');
    expect(() => resolveTrainingConfig([BASE, role])).toThrow('roles.judge.max_concurrent (--role) must be an integer of at least 1, got 0');
    expect(() => resolve({ steps: 'none' })).toThrow('steps (--set) must be an integer of at least 0, got "none"');
  });

  it('lets a later layer unset a key of an earlier one', () => {
    const unset = (key: string) => ({ source: '--set', table: {}, unset: key });
    const file = {
      source: 'run.toml',
      table: { environment: { id: 'x' }, model: { path: 'm' }, policy: { base_url: 'http://h/v1' }, backend: { device: 'cuda:1' } },
    };
    const more = { source: '--set', table: { backend: { devices: ['cuda:0', 'cuda:1'] } } };
    expect(() => resolveTrainingConfig([file, more])).toThrow(ConfigError);
    const { wire, origin } = resolveTrainingConfig([file, unset('backend.device'), more]);
    expect(wire.backend).toMatchObject({ device: 'auto', devices: ['cuda:0', 'cuda:1'] });
    expect(origin('backend.device')).toBe('default');
    expect(() => resolveTrainingConfig([file, unset('backend.devise')])).toThrow('Unknown key backend.devise (--set) (did you mean backend.device?)');
  });

  it('turns a warm-up ratio into steps, whichever of the two was set last', () => {
    const ratio = { optimizer: { warmup_ratio: 0.285 } };
    expect(resolve({ steps: 1005 }, ratio).wire.optimizer).toMatchObject({ warmup_steps: 286, warmup_ratio: null });
    expect(resolve({ steps: 30 }, ratio).wire.optimizer.warmup_steps).toBe(8);
    expect(resolve(ratio).origin('optimizer.warmup_steps')).toBe('--set');
    expect(resolve(ratio, { optimizer: { warmup_steps: 3 } }).wire.optimizer.warmup_steps).toBe(3);
    expect(resolve({ optimizer: { warmup_steps: 3 } }, ratio).wire.optimizer.warmup_steps).toBe(28);
    expect(() => resolve({ optimizer: { warmup_steps: 3, warmup_ratio: 0.1 } })).toThrow(/Both optimizer.warmup_steps and optimizer.warmup_ratio/);
  });

  it("takes GSPO's clip for a sequence ratio, unless a clip is set, also to the value of a token's", () => {
    const clip = (loss: object, ...later: object[]) => {
      const { clip_low: low, clip_high: high } = resolve({ algorithm: { loss } }, ...later.map((each) => ({ algorithm: { loss: each } }))).wire
        .algorithm.loss;
      return [low, high];
    };
    expect(clip({})).toEqual([0.2, 0.2]);
    expect(clip({ ratio: 'sequence' })).toEqual([3e-4, 4e-4]);
    expect(clip({ ratio: 'sequence', clip_low: 0.2 })).toEqual([0.2, 4e-4]);
    expect(clip({ ratio: 'sequence', clip_low: 0.2, clip_high: 0.2 })).toEqual([0.2, 0.2]);
    expect(clip({ clip_high: 0.28 }, { ratio: 'sequence' })).toEqual([3e-4, 0.28]);
    expect(clip({ ratio: 'sequence' }, { ratio: 'token' })).toEqual([0.2, 0.2]);
  });

  it("takes GSPO's clip in place of a preset's, which is a token's", () => {
    const preset = presetLayer(presetNamed('search-r1-grpo', null));
    const clip = (loss: Record<string, unknown>) => resolveTrainingConfig([preset, BASE, layer({ algorithm: { loss } })]).wire.algorithm.loss;
    expect(clip({ ratio: 'sequence' })).toMatchObject({ clip_low: 3e-4, clip_high: 4e-4 });
    expect(clip({ ratio: 'sequence', clip_low: 0.2 })).toMatchObject({ clip_low: 0.2, clip_high: 4e-4 });
    expect(clip({})).toMatchObject({ clip_low: 0.2, clip_high: 0.2 });
  });

  it("keeps GSPO's clip where the record of a run is resolved again", () => {
    const once = resolve({ algorithm: { loss: { ratio: 'sequence', clip_high: 0.2 } } });
    expect(resolveTrainingConfig([layer(once.wire)]).wire).toEqual(once.wire);
  });

  it('resolves what it resolved to itself {any steps, rank, rate}', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1e6 }),
        fc.integer({ min: 1, max: 512 }),
        fc.double({ min: 1e-9, max: 1, noNaN: true }),
        (steps, rank, learning_rate) => {
          const once = resolve({ steps, lora: { rank }, optimizer: { learning_rate } });
          const again = resolveTrainingConfig([layer(once.wire)]);
          expect(again.wire).toEqual(once.wire);
        },
      ),
    );
  });

  it.each([
    [{ lora: { rnak: 8 } }, 'Unknown key lora.rnak (--set) (did you mean lora.rank?); known keys in [lora]: rank, alpha, targets'],
    [
      { learning_rate: 1 },
      /^Unknown key learning_rate \(--set\) \(did you mean optimizer.learning_rate or sft.learning_rate\?\); known keys at the top level: name, seed/,
    ],
    [{ optimizer: { lr: 1 } }, /^Unknown key optimizer.lr \(--set\) \(did you mean optimizer.learning_rate\?\)/],
    [{ optimizer: { qq: 1 } }, /^Unknown key optimizer.qq \(--set\); known keys in/],
    [{ optimzer: {} }, /Unknown key optimzer \(--set\) \(did you mean optimizer\?\)/],
    [{ constructor: 1 }, /Unknown key constructor/],
    [
      { policy: { embedded: { thread: 2 } } },
      'Unknown key policy.embedded.thread (--set) (did you mean policy.embedded.threads?); known keys in [policy.embedded]: threads, cache_tokens, max_restarts',
    ],
    [{ policy: { launch: { pyhton: 'x' } } }, /Unknown key policy.launch.pyhton \(--set\) \(did you mean policy.launch.python\?\)/],
    [{ policy: { embedded: { threads: 65 } } }, 'policy.embedded.threads (--set) must be an integer from 1 to 64 or null, got 65'],
    [{ lora: { rank: 0 } }, 'lora.rank (--set) must be an integer of at least 1, got 0'],
    [{ lora: { rank: 2.5 } }, 'lora.rank (--set) must be an integer of at least 1, got 2.5'],
    [{ lora: 8 }, 'lora (--set) must be a table, got 8'],
    [
      { algorithm: { loss: { objective: 'ppo' } } },
      /algorithm.loss.objective \(--set\) must be "clip" or "cispo" or "importance_sampling", got "ppo"/,
    ],
    [{ optimizer: { learning_rate: 'fast' } }, 'optimizer.learning_rate (--set) must be a number above 0, got "fast"'],
    [{ optimizer: { epsilon: 0 } }, 'optimizer.epsilon (--set) must be a number of at least 1e-30, got 0'],
    [{ optimizer: { beta1: 1 } }, 'optimizer.beta1 (--set) must be a number from 0 below 1, got 1'],
    [{ rollouts: { max_staleness: -1 } }, 'rollouts.max_staleness (--set) must be an integer of at least 0, got -1'],
    [{ policy: { base_url: 3 } }, 'policy.base_url (--set) must be a non-empty string or a list of strings or null, got 3'],
    [{ publish: { quorum: 2 } }, 'publish.quorum must be at most the number of policy servers (1), got 2 (--set)'],
    [
      { policy: { base_url: ['http://a/v1', 'http://b/v1'] }, publish: { quorum: 3 } },
      'publish.quorum must be at most the number of policy servers (2), got 3 (--set)',
    ],
    [{ policy: { launch: { env: { A: 1 } } } }, 'policy.launch.env (--set) must be a table of strings, got a table'],
    [{ policy: { launch: { args: ['a', 1] } } }, /policy.launch.args \(--set\) must be a list of strings/],
    [
      { name: 'my\nrun' },
      'name (--set) must be one line of visible text without spaces at its ends, of at most 80 characters or null, got "my\\nrun"',
    ],
    [{ model: { path: '' } }, 'model.path (--set) must be a non-empty string, got ""'],
    [{ environment: { args: { serper_api_key: '***' } } }, /environment.args.serper_api_key is a secret/],
  ])('refuses %j in one line', (table, message) => {
    expect(() => resolve(table)).toThrow(ConfigError);
    expect(() => resolve(table)).toThrow(message);
  });

  it('says what a key without a default is for', () => {
    expect(() => resolveTrainingConfig([])).toThrow(/^environment.id is not set: an environment id or a path/);
    expect(() => resolveTrainingConfig([layer({ environment: { id: 'x' } })])).toThrow(
      /^No model is named; set model.path to a Hugging Face directory, a bundled model .* or use the preset laptop, or laptop-copy for an environment of your own$/,
    );
  });

  it('shows no credentials of a URL and nothing of a table', () => {
    const message = (table: Record<string, unknown>) => {
      try {
        resolve(table);
        return '';
      } catch (error) {
        return String(error);
      }
    };
    expect(message({ policy: { base_url: ['http://user:hunter22@h/v1', 'ftp://user:hunter22@h/v1'] } })).toMatch(/got "ftp:\/\/\*\*\*@h\/v1"/);
    expect(message({ policy: { launch: { env: { KEY: 5, TOKEN: 'hunter22' } } } })).not.toContain('hunter22');
    expect(message({ policy: { base_url: ['http://user:hunter22@h/v1', 5] } })).not.toContain('hunter22');
  });

  it.each([
    [{ policy: { base_url: null } }, /^No policy server is named; set policy.base_url .*, \[policy.launch\] .* or \[policy.embedded\] /],
    [{ policy: { launch: {} } }, /^Only one of policy.base_url .* may be set, got policy.base_url and \[policy.launch\]; keep one/],
    [{ policy: { base_url: null, launch: {}, embedded: {} } }, /got \[policy.launch\] and \[policy.embedded\]/],
    [
      { rollouts: { rollouts_per_example: 1 } },
      /rollouts_per_example must be at least 2 with algorithm.advantage.scope = "group".*; got 1.*\(--set\)/,
    ],
    [
      { rollouts: { rollouts_per_example: 1, max_refills: 1 }, algorithm: { advantage: { scope: 'batch' } } },
      /rollouts.max_refills must be 0 with rollouts.rollouts_per_example = 1.*; got 1 \(--set\)/,
    ],
    [{ policy: { base_url: null, embedded: {}, api_key_var: 'K' } }, /policy.api_key_var must be left out with \[policy.embedded\]/],
    [
      { policy: { base_url: null, embedded: {} }, publish: { server_adapter_dir: '/a' } },
      /publish.server_adapter_dir must be left out with \[policy.embedded\]/,
    ],
    [
      { backend: { kind: 'embedded', python: '/venv/python' } },
      /backend.python must be left out with backend.kind = "embedded" .*, got "\/venv\/python"/,
    ],
    [{ backend: { kind: 'embedded', device: 'cuda:1' } }, /backend.device must be left out with backend.kind = "embedded" .*, got "cuda:1"/],
    [{ backend: { kind: 'embedded', dtype: 'bfloat16' } }, /backend.dtype must be left out with backend.kind = "embedded" .*, got "bfloat16"/],
    [
      { backend: { kind: 'embedded', timeout_s: 60 } },
      /backend.timeout_s must be left out with backend.kind = "embedded" .*, got 60: leave it out, or set/,
    ],
    [
      { policy: { base_url: null, embedded: { threads: 2 } }, backend: { kind: 'embedded', threads: 3 } },
      /backend.threads must equal policy.embedded.threads \(2\), .* got 3/,
    ],
    [
      { backend: { kind: 'embedded', devices: ['cpu', 'cpu'] } },
      /backend.devices must be left out with backend.kind = "embedded" .*, got \["cpu","cpu"\]/,
    ],
    [
      { backend: { device: 'cuda', devices: ['cuda:1', 'cuda:2'] } },
      /Only one of backend.device and backend.devices may be set, got "cuda" and \["cuda:1","cuda:2"\]/,
    ],
    [{ backend: { devices: ['cpu', 'cuda:0'] } }, /backend.devices must be all "cpu", or all GPUs and each once .*, got \["cpu","cuda:0"\]/],
    [{ backend: { devices: ['cuda:1', 'cuda:1'] } }, /all GPUs and each once .*, got \["cuda:1","cuda:1"\]/],
    [{ backend: { sharding: 'full', device: 'cuda:1' } }, /backend.devices must be set with backend.sharding = "full".*; got none/],
    [{ backend: { kind: 'embedded', threads: 65 } }, /backend.threads must be 1 to 64 with backend.kind = "embedded", got 65/],
    [{ policy: { base_url: null, embedded: {} }, lora: { rank: 513 } }, /lora.rank must be 1 to 512 with the embedded engine, got 513/],
    [{ policy: { base_url: 'host:8000' } }, /must begin with http:\/\/ or https:\/\/, got "host:8000"/],
    [{ policy: { base_url: ['http://h/v1', 'http://h/v1'] } }, /Every URL in policy.base_url must be another server/],
    [{ policy: { base_url: ['http://h/v1', 'http://h'] } }, /Every URL in policy.base_url must be another server/],
    [{ policy: { base_url: null, launch: {}, api_key_var: 'K' } }, /policy.api_key_var must be left out with \[policy.launch\]/],
    [{ policy: { base_url: null, launch: { args: ['--hf-token', 'hf_secret'] } } }, /policy.launch.args must hold no token.*set HF_TOKEN/],
    [{ policy: { base_url: null, launch: { args: ['--hf_token=hf_secret'] } } }, /policy.launch.args must hold no token/],
    [{ algorithm: { correction: { level: 'token' } } }, /old_log_probs must be "trainer" with algorithm.correction.level = "token".*got "sampler"/],
    [
      { algorithm: { correction: { level: 'token' }, old_log_probs: 'trainer', loss: { ratio: 'sequence' } } },
      /correction.level must be "sequence", "geometric" or "none" with algorithm.loss.ratio = "sequence"/,
    ],
    [{ algorithm: { correction: { level: 'token', min: 2, max: 2 }, old_log_probs: 'trainer' } }, /correction.min must be below max \(2\), got 2/],
    [{ algorithm: { advantage: { scope: 'batch', baseline: 'leave_one_out' } } }, /baseline must be "mean" with algorithm.advantage.scope = "batch"/],
    [{ algorithm: { advantage: { weighting: 'token' } } }, /scope must be "role_task", "role" or "batch" with .*weighting = "token", got "group"/],
    [{ algorithm: { advantage: { scope: 'none', decay: 0.5 } } }, /"role_task", "role" or "batch" with .*decay = 0.5, got "none"/],
    [{ algorithm: { loss: { args: { a: 1 } } } }, /algorithm.loss.args must be left out with algorithm.loss.use = "ratio"/],
    [{ rollouts: { max_staleness: 1 }, algorithm: { old_log_probs: 'trainer' } }, /with rollouts.max_staleness = 1/],
    [{ algorithm: { loss: { dual_clip: 3, objective: 'cispo' } } }, /objective must be "clip" with algorithm.loss.dual_clip = 3, got "cispo"/],
    [
      { policy: { base_url: null, launch: { sleep: true } }, rollouts: { max_staleness: 1 } },
      /max_staleness must be 0 with policy.launch.sleep = true.*got 1/,
    ],
    [
      { policy: { base_url: null, launch: { sleep: true } }, backend: { kind: 'embedded' } },
      /backend.kind must be "torch" with policy.launch.sleep = true/,
    ],
    [{ algorithm: { loss: { dual_clip: 1.1 } } }, /dual_clip must be above 1 \+ clip_high \(1.2\).*got 1.1/],
    [{ algorithm: { loss: { ratio_min: 5 } } }, /ratio_min must be below ratio_max \(5\), got 5/],
    [{ algorithm: { loss: { ratio: 'sequence', objective: 'cispo' } } }, /ratio must be "token" with objective = "cispo"/],
    [{ algorithm: { branch_weight: 'token' } }, /branch_weight must be left out with algorithm.loss.aggregation = "token_mean"/],
    [
      { algorithm: { branches: 'last', branch_weight: 'token', loss: { aggregation: 'sequence_mean' } } },
      /branch_weight must be left out with algorithm.branches = "last", which keeps one branch of each rollout/,
    ],
    [{ algorithm: { loss: { max_tokens: 10 } } }, /aggregation must be "constant" with algorithm.loss.max_tokens = 10/],
    [{ algorithm: { kl: { coefficient: 1, placement: 'reward', against: 'old' } } }, /against must be "reference" with placement = "reward"/],
    [
      { algorithm: { kl: { coefficient: 0.1, against: 'old' }, old_log_probs: 'trainer' } },
      /minibatches or algorithm\.epochs must be above 1 with algorithm\.kl\.against = "old"/,
    ],
    [{ algorithm: { minibatches: 65 } }, /minibatches must be at most rollouts.examples_per_step \(64\).*got 65/],
    [{ optimizer: { warmup_steps: 101 } }, /warmup_steps must be at most steps \(100\), got 101 \(--set\)/],
    [{ optimizer: { min_learning_rate: 1 } }, /min_learning_rate must be at most learning_rate \(0.00004\), got 1/],
    [{ steps: 0 }, /steps must be at least 1 without supervised steps .*got 0/],
    [{ steps: 0, sft: { data: 'rows.jsonl' }, rollouts_file: 'r.jsonl' }, /rollouts_file needs steps on rollouts/],
    [{ sft: { mix_weight: 0.1 } }, /sft\.data must be set with sft\.mix_weight = 0\.1, got none/],
    [{ sft: { steps: 5 } }, /sft\.data must be set with sft\.steps = 5, got none/],
    [{ sft: { problems: 'GAIR/LIMO' } }, /sft\.steps must be set with sft\.problems, whose rows are known only when the run begins/],
    [{ sft: { held_out: 0.1 } }, /sft\.data must be set with sft\.held_out = 0\.1, got none/],
    [{ sft: { validation: 'v.jsonl' } }, /sft\.data must be set with sft\.validation = "v\.jsonl", got none/],
    [{ losses: { shown: { use: 'nll', on: 'demonstrations' } } }, /sft\.data must be set with losses\.shown\.on = "demonstrations".*got none/],
    [
      { algorithm: { loss: { use: 'nll' }, kl: { coefficient: 0.1 } } },
      /algorithm\.kl\.coefficient = 0\.1 needs a loss that uses it.*"nll" does not/,
    ],
    [
      { algorithm: { loss: { use: 'rpg', args: { beta: 1 } }, entropy_coefficient: 0.01 } },
      /algorithm\.entropy_coefficient = 0\.01 needs a loss that uses it.*"rpg"/,
    ],
    [
      { algorithm: { loss: { use: 'nll' }, old_log_probs: 'trainer', correction: { level: 'token' } } },
      /algorithm\.correction\.level = "token" needs a loss that uses it/,
    ],
    [{ algorithm: { loss: { use: 'rpg', args: { beta: 1 }, ratio: 'sequence' } } }, /rpg has a ratio in algorithm\.loss\.args/],
    [
      { policy: { base_url: null, launch: { sleep: true } }, rollouts: { max_staleness: 3 } },
      /max_staleness must be 0 with policy.launch.sleep = true.*got 3/,
    ],
    [{ sft: { data: 'rows.jsonl', held_out: 1.5 } }, /sft\.held_out must be a share below 1 or a whole number of rows, got 1\.5/],
    [{ sft: { data: 'rows.jsonl', held_out: 2, validation: 'v.jsonl' } }, /Only one of sft\.held_out and sft\.validation/],
    [{ source: './mine.ts', rollouts_file: 'r.jsonl' }, /Only one of source and rollouts_file/],
    [{ rollouts_file: 'r.jsonl', rollouts: { max_refills: 1 } }, /rollouts\.max_refills and rollouts\.max_staleness must be 0 with rollouts_file/],
    [
      { algorithm: { advantage: { weighting: 'token' } } },
      /advantage\.scope must be "role_task", "role" or "batch" with algorithm\.advantage\.weighting = "token", got "group"/,
    ],
    [{ algorithm: { advantage: { decay: 0.5 } } }, /with algorithm\.advantage\.decay = 0\.5, got "group"/],
    [
      { algorithm: { advantage: { scope: 'batch', baseline: 'leave_one_out' } } },
      /advantage\.baseline must be "mean" with algorithm\.advantage\.scope = "batch"/,
    ],
    [{ algorithm: { correction: { min: 2, max: 2 } } }, /correction\.min must be below max \(2\), got 2/],
    [{ algorithm: { loss: { args: { beta: 1 } } } }, /algorithm\.loss\.args must be left out with algorithm\.loss\.use = "ratio"/],
    [
      { checkpoint: { best: 'em' }, evaluation: { every: 0 } },
      /checkpoint\.best must be .*, or a metric of the evaluation, which evaluation\.every = 0 turns off; got "em"/,
    ],
    [
      { checkpoint: { greater_is_better: false } },
      /checkpoint\.greater_is_better is for a metric that checkpoint\.best names.*leave it out with "auto"/,
    ],
    [{ evaluation: { examples: 0 } }, /evaluation.examples must be -1 \(all rows\) or at least 1, got 0/],
  ])('refuses the combination %j in one line', (table, message) => {
    expect(() => resolve(table)).toThrow(ConfigError);
    expect(() => resolve(table)).toThrow(message);
  });

  it.each([
    { algorithm: { minibatches: 4, epochs: 2 } },
    { rollouts: { max_staleness: 1 } },
    { rollouts: { max_staleness: 1 }, algorithm: { old_log_probs: 'trainer', correction: { level: 'token' } } },
    { algorithm: { negate_advantages: true } },
    { evaluation: { every: 0, examples: 0 } },
    { algorithm: { loss: { aggregation: 'constant', max_tokens: 500 } } },
    { algorithm: { advantage: { scope: 'batch', weighting: 'token', decay: 0.9 } } },
    { algorithm: { loss: { ratio: 'sequence' }, old_log_probs: 'trainer', correction: { level: 'geometric', mode: 'mask', min: 0.5 } } },
    { algorithm: { loss: { use: 'nll', args: { aggregation: 'sum' } } } },
    { algorithm: { loss: { use: 'nll' }, kl: { coefficient: 0.1, placement: 'reward' } } },
    { algorithm: { kl: { coefficient: 0.1, against: 'old' }, old_log_probs: 'trainer', epochs: 2 } },
    { algorithm: { kl: { coefficient: 0.1, against: 'old' }, old_log_probs: 'sampler' } },
    { algorithm: { loss: { use: './mine.ts' }, kl: { coefficient: 0.1 }, entropy_coefficient: 0.01 } },
    { algorithm: { loss: { use: 'nll' }, kl: { coefficient: 0.1 } }, losses: { near: { use: 'ratio' } } },
  ])('accepts %j', (table) => {
    expect(() => resolve(table)).not.toThrow();
  });
});

describe('roles', () => {
  it('merges each role key by key; one that names another model drops the earlier one', () => {
    const judge = { base_url: 'http://j/v1', model: 'j', api_key_var: 'KEY', cache: 'c.jsonl', max_concurrent: 4 };
    expect(resolve({ roles: { judge, critic: { use: 'policy' } } }, { roles: { judge: { max_retries: 1 } } }).config.roles).toEqual({
      judge: { ...judge, max_retries: 1 },
      critic: { use: 'policy' },
    });
    const of = (table: object) => resolve({ roles: { judge } }, { roles: { judge: table } }).wire.roles['judge'];
    expect(of({ use: 'gpt' })).toEqual({ use: 'gpt', cache: 'c.jsonl', max_concurrent: 4 });
    expect(of({ use: 'builtin' })).toEqual({ use: 'builtin', max_concurrent: 4 });
    expect(of({ base_url: 'http://k/v1' })).toEqual({ base_url: 'http://k/v1', cache: 'c.jsonl', max_concurrent: 4 });
  });

  it.each<[object, string]>([
    [{ judge: { base_ur: 'x' } }, 'Unknown key roles.judge.base_ur (--set) (did you mean roles.judge.base_url?)'],
    [{ judge: { max_concurrent: 0 } }, 'roles.judge.max_concurrent (--set) must be an integer of at least 1, got 0'],
    [{ judge: 'gpt' }, 'roles.judge (--set) must be a table, got "gpt"'],
  ])('%j is refused', (roles, message) => {
    expect(() => resolve({ roles })).toThrow(message);
  });
});

describe('names for Weights & Biases', () => {
  it.each([
    [
      { project: 'Qwen/Qwen3-4B: run 1' },
      /logging.wandb.project contains "\/" \(none of .*\), which Weights & Biases refuses; got "Qwen\/Qwen3-4B: run 1"/,
    ],
    [{ project: '100%' }, /logging.wandb.project contains "%"/],
    [{ project: ' ' }, /logging.wandb.project is empty/],
    [{ project: 'x'.repeat(129) }, /logging.wandb.project has 129 characters, more than 128/],
    [{ entity: 'team/me' }, /logging.wandb.entity contains "\/"/],
    [{ group: 'x'.repeat(129) }, /logging.wandb.group has 129 characters/],
    [{ tags: ['ok', 'x'.repeat(65)] }, /logging.wandb.tags may have up to 64 characters each/],
  ])('%j is refused before the run', (wandb, message) => {
    expect(() => resolve({ logging: { wandb } })).toThrow(message);
  });

  it('may have dots, spaces and other scripts, and a group may have slashes', () => {
    const wandb = { project: 'Qwen3 4B · größer', entity: 'my-team', group: 'a/b: 1', tags: ['x'.repeat(64)] };
    expect(resolve({ logging: { wandb } }).config.logging.wandb).toMatchObject(wandb);
  });
});
