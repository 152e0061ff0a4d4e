import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nextTrainingCommands, restingNotice } from '../../../src/reports/training/next-training-commands.ts';
import { ownPresets } from '../../../src/sessions/environment/presets.ts';
import { trainingSummary } from '../../../src/reports/training/training-summary.ts';
import { trainingConfigFromWire, type TrainingConfigWire } from '../../../src/schemas/training-config.ts';
import { trainingRecord } from '../../cli/train/training-record.ts';

const { policy: _, ...parts } = { policy: null, lora: { rank: 8, alpha: 16, targets: ['q_proj'] } } as const;
const { environment } = trainingRecord().config;
const configOf = (policy: object) => ({
  ...trainingConfigFromWire({ ...parts, policy, publish: { server_adapter_dir: null } } as unknown as TrainingConfigWire),
  environment,
  roles: {},
});
const presets = ownPresets('search-r1');
const remote = configOf({ base_url: ['http://a:8000/v1', 'http://b:8000/v1'], model: null, api_key_var: null, launch: null, embedded: null });
const kept = { ...remote, policy: { ...remote.policy, keepAdapter: true } };
const launched = configOf({ base_url: null, model: null, api_key_var: null, launch: {}, embedded: null });
const embedded = configOf({ base_url: null, model: null, api_key_var: null, launch: null, embedded: {} });

describe('nextTrainingCommands', () => {
  it('trains again with a lower learning rate where an update destroyed the policy, and does not continue a run that this stopped', () => {
    const rows = [{ kind: 'step', step: 1, values: { learning_rate: 50, update_log_prob_before: -0.5, update_log_prob_after: -18 } }] as const;
    const collapsed = (outcome: object) => {
      const { config, ...record } = trainingRecord({ rows, outcome });
      return trainingSummary({ ...record, config: { ...config, optimizer: { ...config.optimizer, learningRate: 50 } } });
    };
    const stopped = nextTrainingCommands(collapsed({ reason: 'stopped', resumable: true }), remote, { backend: 'embedded', presets }).map(
      ({ command }) => command,
    );
    expect(stopped).toEqual([expect.stringMatching(/vf-train(\.js)? outputs\/train\/nano--0a1b2c3d\/config\.toml -m nano-base --lr 0\.001$/)]);
    const interrupted = nextTrainingCommands(collapsed({ reason: 'interrupted', resumable: true }), remote, { backend: 'embedded', presets });
    const ended = nextTrainingCommands({ ...collapsed({ reason: 'finished', resumable: false }), adapter: 'a' }, embedded, {
      backend: 'embedded',
      presets,
    });
    expect(ended.find(({ why }) => why.includes('GPU'))?.command).toMatch(/--python python3 --lr 0\.001$/);
    expect(interrupted.map(({ why }) => why)).toEqual(['train again with a lower learning rate: this run has collapsed', 'continue this run']);
  });

  it('continues what can be continued', () => {
    const summary = trainingSummary(trainingRecord({ outcome: { reason: 'interrupted', resumable: true } }));
    expect(nextTrainingCommands(summary, remote, { backend: 'embedded', presets })).toEqual([
      { why: 'continue this run', command: 'npx vf-train -R outputs/train/nano--0a1b2c3d' },
    ]);
    const resumeFlags = ['--allow-changes', '--lr', '1e-4'];
    expect(nextTrainingCommands(summary, remote, { backend: 'embedded', presets, resumeFlags })).toEqual([
      { why: 'continue this run', command: 'npx vf-train -R outputs/train/nano--0a1b2c3d --allow-changes --lr 1e-4' },
    ]);
    const corrected = { resumeFlags: ['--allow-changes'], correct: './my-loss.ts' };
    expect(nextTrainingCommands(summary, remote, { backend: 'embedded', presets, ...corrected })).toEqual([
      {
        why: 'correct my-loss.ts, then continue this run',
        command: 'npx vf-train -R outputs/train/nano--0a1b2c3d --allow-changes',
      },
    ]);
    const newRun = { why: 'with more rollouts per row', flags: ['-r', '8'] };
    expect(nextTrainingCommands({ ...summary, adapter: null }, remote, { backend: 'embedded', presets, resumeFlags: null, newRun })).toEqual([
      { why: 'train again with more rollouts per row', command: expect.stringMatching(/outputs\/train\/nano--0a1b2c3d\/config\.toml .*-r 8$/) },
    ]);
    expect(nextTrainingCommands({ ...summary, adapter: null }, remote, { backend: 'embedded', presets, resumeFlags: null })).toEqual([]);
  });

  it('loads the adapter again where a run that has ended unloaded it, without the key, then evaluates it on held-out rows', () => {
    const keyed = { ...remote, policy: { ...remote.policy, apiKeyVar: 'SK' } };
    const [load, evaluation] = nextTrainingCommands(trainingSummary(trainingRecord()), keyed, { backend: 'embedded', presets });
    const body = JSON.stringify({ lora_name: 'nano-0a1b2c3d-v29', lora_path: resolve('outputs/train/nano--0a1b2c3d/checkpoints/30/adapter') });
    const [url, header] = ['http://a:8000/v1/load_lora_adapter', "'content-type: application/json'"];
    expect(load?.command).toBe(`curl ${url} -H ${header} -H "authorization: Bearer $SK" -d '${body}'`);
    expect(evaluation?.command).toContain('-b http://a:8000/v1 -k SK -m nano-0a1b2c3d-v29');
  });

  it('copies the adapter to where the server sees it under another path', () => {
    const seen = { ...remote, publish: { ...remote.publish, serverAdapterDir: '/mnt/{run}/adapters/' } };
    const [load] = nextTrainingCommands(trainingSummary(trainingRecord()), seen, { backend: 'embedded', presets });
    expect(load?.command).toMatch(
      /^cp -r outputs\/train\/nano--0a1b2c3d\/checkpoints\/30\/adapter outputs\/train\/nano--0a1b2c3d\/adapters\/nano-0a1b2c3d-v29 && curl /,
    );
    expect(load?.command).toContain('"lora_path":"/mnt/nano--0a1b2c3d/adapters/nano-0a1b2c3d-v29"');
  });

  it('loads the best adapter into the server that runs on where the run ended worse', () => {
    const summary = trainingSummary(trainingRecord());
    const heldOut = {
      start: summary.reward!.first,
      end: { ...summary.reward!.last, value: 0.1 },
      best: summary.reward!.best,
    } as unknown as typeof summary.heldOut;
    const best = { metric: 'reward_mean', version: 10, step: 10, value: 0.5, adapter: 'outputs/train/nano--0a1b2c3d/best/adapter' } as const;
    const [load, evaluate] = nextTrainingCommands({ ...summary, heldOut, best }, remote, { backend: 'embedded', presets });
    expect(load?.command).toMatch(/^curl http:\/\/a:8000\/v1\/load_lora_adapter .*"lora_name":"nano--0a1b2c3d-best"/);
    expect(evaluate?.command).toMatch(/ -b http:\/\/a:8000\/v1 -m nano--0a1b2c3d-best$/);
  });

  it('says by which metric the run ended worse than the best adapter', () => {
    const summary = trainingSummary(trainingRecord());
    const at = (step: number, value: number) => ({ step, value });
    const whys = (best: number, end: number, lowerIsBetter: boolean) => {
      const bestBy = {
        metric: 'em',
        lowerIsBetter,
        start: at(0, 1),
        end: at(30, end),
        best: at(10, best),
      };
      const bestEm = {
        metric: 'rubric/em',
        version: 10,
        step: 10,
        value: best,
        adapter: 'outputs/train/nano--0a1b2c3d/best/adapter',
      };
      const heldOut = {
        start: at(0, 1),
        end: at(30, 1),
        best: at(0, 1),
      } as unknown as typeof summary.heldOut;
      return nextTrainingCommands({ ...summary, heldOut, best: bestEm, bestBy }, remote, {
        backend: 'embedded',
        presets,
      }).map(({ why }) => why);
    };
    const worse = 'serve the best adapter, of step 10: the run ended worse by em';
    expect(whys(0.5, 0.4, false)).toContain(worse);
    expect(whys(0.4, 0.5, true)).toContain(worse);
    for (const why of [...whys(0.5, 0.5, false), ...whys(0.5, 0.4, true)]) expect(why).not.toContain('the best adapter');
  });

  it('evaluates the adapter where it was left to serve, on held-out rows', () => {
    expect(nextTrainingCommands(trainingSummary(trainingRecord()), kept, { backend: 'embedded', presets }).map(({ command }) => command)).toEqual([
      `npx vf-eval search-r1 -a '{"dataset":"fact-world","data_split":"test"}' -p vllm -b http://a:8000/v1 -m nano-0a1b2c3d-v29`,
    ]);
  });

  it.each([
    ['http://a:8000', 'http://b:8000/v1'],
    ['http://b:8000', 'http://a:8000/v1'],
  ])('loads and evaluates at a replica that serves while %s rests', (resting, serving) => {
    for (const config of [kept, remote]) {
      const commands = nextTrainingCommands(trainingSummary(trainingRecord()), config, { backend: 'embedded', presets, resting: [resting] });
      expect(commands.at(-1)?.command).toContain(`-p vllm -b ${serving} -m`);
      expect(commands.every(({ command }) => !command.includes(resting))).toBe(true);
    }
    const secret = { ...kept, policy: { ...kept.policy, baseUrl: ['http://me:pass@a:8000/v1/', 'http://b:8000/v1'] } };
    const [next] = nextTrainingCommands(trainingSummary(trainingRecord()), secret, { backend: 'embedded', presets, resting: ['http://a:8000'] });
    expect(next?.command).toContain('-b http://b:8000/v1');
  });

  it('names the variable of the API key that the server requires', () => {
    const keyed = { ...kept, policy: { ...kept.policy, apiKeyVar: 'SK' } };
    const [next] = nextTrainingCommands(trainingSummary(trainingRecord()), keyed, { backend: 'embedded', presets });
    expect(next?.command).toContain('-b http://a:8000/v1 -k SK -m nano-0a1b2c3d-v29');
  });

  it('binds the roles to the models of the run', () => {
    const roles = {
      judge: { base_url: ['http://user:pass@j:1/v1', 'http://k:1/v1'], model: 'large', max_retries: 2 },
      critic: { use: 'policy' },
      guide: { max_concurrent: 2 },
      refiner: { base_url: 'http://r:1/v1' },
    };
    const [next] = nextTrainingCommands(trainingSummary(trainingRecord()), { ...embedded, roles }, { backend: 'embedded', presets });
    expect(next?.command).toContain(" --role 'judge=large@http://***@j:1/v1' --role critic=policy --role refiner=http://r:1/v1 -n 50 ");
  });

  it('serves the adapter first where the server is gone with the run', () => {
    expect(nextTrainingCommands(trainingSummary(trainingRecord()), launched, { backend: 'embedded', presets }).map(({ command }) => command)).toEqual(
      [
        'vllm serve models/nano-base --generation-config vllm --enable-lora --max-lora-rank 8 --lora-modules nano-0a1b2c3d-v29=outputs/train/nano--0a1b2c3d/checkpoints/30/adapter',
        expect.stringContaining('-b http://127.0.0.1:8000/v1 -m nano-0a1b2c3d-v29'),
      ],
    );
  });

  it('evaluates in this process what was trained there, does the same on a GPU box, and with a real model', () => {
    expect(nextTrainingCommands(trainingSummary(trainingRecord()), embedded, { backend: 'embedded', presets }).map(({ command }) => command)).toEqual(
      [
        `npx vf-eval search-r1 -a '{"dataset":"fact-world","data_split":"test"}' -n 50 -p embedded -m outputs/train/nano--0a1b2c3d/checkpoints/30/adapter`,
        'npx vf-train outputs/train/nano--0a1b2c3d/config.toml -m nano-base --launch --python python3',
        'npx vf-train search-r1 --preset nq-mini --launch',
      ],
    );
  });

  it.each([
    ['self-play-code', 'npx vf-train self-play-code --preset azr --launch'],
    ['grpo-000', 'npx vf-train grpo-000 --preset grpo-000 --launch'],
    ['visual-rag', 'npx vf-train visual-rag --preset ddai-phase1-mini --launch'],
  ])("names %s's own preset for a larger model", (id, command) => {
    const config = { ...embedded, environment: { ...environment, id } };
    expect(nextTrainingCommands(trainingSummary(trainingRecord()), config, { backend: 'embedded', presets: ownPresets(id) }).at(-1)).toEqual({
      why: 'train a real model there',
      command,
    });
  });

  it('does not call the adapter by the name of its base where no server had it, and asks for no vLLM where the engine trained', () => {
    const unserved = configOf({ base_url: null, model: null, api_key_var: null, launch: null, embedded: null });
    const summary = trainingSummary(trainingRecord({ outcome: { model: 'models/nano-base' } }));
    const commands = (backend: 'torch' | 'embedded') =>
      nextTrainingCommands(summary, unserved, { backend, presets: [] }).map(({ command }) => command);
    expect(commands('torch')).toEqual([
      'vllm serve models/nano-base --generation-config vllm --enable-lora --max-lora-rank 8 --lora-modules nano--0a1b2c3d=outputs/train/nano--0a1b2c3d/checkpoints/30/adapter',
      expect.stringContaining('-b http://127.0.0.1:8000/v1 -m nano--0a1b2c3d'),
    ]);
    expect(commands('embedded')).toEqual([expect.stringContaining('-p embedded -m outputs/train/nano--0a1b2c3d/checkpoints/30/adapter')]);
  });

  it('evaluates no more rows than the environment has', () => {
    expect(nextTrainingCommands(trainingSummary(trainingRecord()), embedded, { backend: 'embedded', rows: 2, presets })[0]!.command).toContain(
      ' -n 2 -p embedded ',
    );
  });

  it('has nothing to say where nothing was trained', () => {
    expect(nextTrainingCommands(trainingSummary(trainingRecord({ outcome: { adapter: null } })), remote, { backend: 'embedded', presets })).toEqual(
      [],
    );
  });
});

describe('restingNotice', () => {
  it('says what replicas that did not serve may still have', () => {
    expect(restingNotice([], 'run-v3')).toBeNull();
    expect(restingNotice(['http://a:8000'], 'run-v3')).toBe(
      'http://a:8000 did not serve run-v3 when the run ended; it may still have older adapters of this run: restart it, or unload these with POST /v1/unload_lora_adapter',
    );
  });
});
