/**
 * Adapters for whole pipelines, through the reader, the plan and the engine: loops and branches over toy tools, and Search-o1 as its document has it,
 * with a scripted model and scripted passages behind the built-in servers.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { PolicyClient, TextSample } from '../../src/clients/policy-client.ts';
import { OpenPipeline } from '../../src/pipelines/open-pipeline.ts';
import type { Retriever } from '../../src/retrieval/retriever.ts';
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { parsePipeline } from '../../src/pipelines/pipeline.ts';
import { PipelineError, PipelineFileError } from '../../src/pipelines/pipeline-error.ts';
import { PromptTemplate } from '../../src/pipelines/prompt-template.ts';
import { pythonShuffle } from '../../src/pipelines/python-shuffle.ts';
import { planPipeline } from '../../src/pipelines/pipeline-plan.ts';
import type { Values } from '../../src/pipelines/pipeline-server.ts';
import { type FinishedCall, runPipeline } from '../../src/pipelines/run-pipeline.ts';
import { TOYS } from './toy-pipeline-servers.ts';
import type { Adapter } from './vectors.ts';

const MOST_CALLS = 60;

type Texts = readonly string[];

interface PipelineCase {
  readonly yaml: string;
  readonly parameters: Readonly<Record<string, Values>>;
}

const toyPipelines: Adapter = {
  actual: async ({ yaml, parameters }: PipelineCase) => {
    const calls: FinishedCall[] = [];
    try {
      const pipeline = parsePipeline(parseYaml(yaml, 'the pipeline'), 'the pipeline');
      const plan = planPipeline(pipeline, { servers: new Map(Object.entries(TOYS)), named: new Map(), where: 'the pipeline' });
      const { variables } = await runPipeline(plan, {
        parameters: new Map(Object.entries(parameters)),
        journal: NO_JOURNAL,
        resolve: (file) => file,
        signal: new AbortController().signal,
        onCall: (call) => calls.push(call),
      });
      const trace = calls.slice(0, MOST_CALLS).map((call) => ({ step: call.name, args: call.arguments, reply: call.reply }));
      return { trace, final: variables, ...(calls.length > MOST_CALLS && { cut: true }) };
    } catch (error) {
      if (error instanceof PipelineFileError) return { error: error.fault };
      if (error instanceof PipelineError) return { error: error.failure };
      throw error;
    }
  },
};

const templates: Adapter = {
  actual: ({ template, variables }: { readonly template: string; readonly variables: Values }) => {
    try {
      return { text: new PromptTemplate(template, 'the template').render(variables) };
    } catch (error) {
      if (error instanceof PipelineFileError) return { error: 'syntax' };
      if (error instanceof PipelineError) return { error: 'runtime' };
      throw error;
    }
  },
  declared: ({ tags }) =>
    tags.includes('coercion') ? 'values and filters that prompts do not use are printed as the Jinja library prints them' : undefined,
};

const shuffle: Adapter = {
  actual: ({ n, seed }: { readonly n: number; readonly seed: number | string }) => pythonShuffle(n, BigInt(seed)),
};

interface SeedCase {
  readonly questions: readonly { readonly question: string; readonly golden_answers: readonly string[] }[];
  readonly answers: Readonly<Record<string, readonly string[]>>;
  readonly passages: Readonly<Record<string, readonly string[]>>;
}

const SEARCH_O1 = path.join(import.meta.dirname, '../../examples/search_o1.yaml');
/** Variables of the trace; parameters, and the golden answers, are left out of it. */
const TRACED = new Set(['q_ls', 'prompt_ls', 'ans_ls', 'extract_query_list', 'query_list', 'ret_psg', 'pred_ls']);

const seedPipeline: Adapter = {
  actual: async ({ questions, answers, passages }: SeedCase) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'search-o1-'));
    const signal = new AbortController().signal;
    try {
      const file = path.join(folder, 'questions.jsonl');
      writeFileSync(file, questions.map((question) => `${JSON.stringify(question)}\n`).join(''));
      const calls: FinishedCall[] = [];
      await using pipeline = await OpenPipeline.open({
        path: SEARCH_O1,
        set: [`benchmark.benchmark.path=${file}`, 'benchmark.benchmark.limit=-1', 'evaluation.metrics=[acc, em, f1]', 'evaluation.save_path=null'],
        openers: {
          chat: async () =>
            scriptedChat(
              questions.map(({ question }) => question),
              answers,
            ),
          search: async () => scriptedSearch(passages),
        },
        importModule: (name) => Promise.reject(new Error(`Nothing imports ${name}`)),
        signal,
      });
      const { variables } = await pipeline.run({ journal: NO_JOURNAL, signal, onCall: (call) => calls.push(call) });
      const trace = calls.map(({ name: step, arguments: args, reply }) => ({
        step,
        args: hashed(Object.fromEntries(Object.entries(args).filter(([key]) => TRACED.has(key))), true),
        reply: hashed(reply, questions.length > 1),
      }));
      return { trace, final: { ans_ls: variables['ans_ls'], eval_res: variables['eval_res'] } };
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

/** Prompts as the first 16 hex digits of their SHA-256. */
function hashed(values: Values, isHashed: boolean): Values {
  const { prompt_ls: prompts, ...others } = values;
  if (!isHashed || prompts === undefined) return values;
  return { ...others, prompt_ls: (prompts as Texts).map((prompt) => createHash('sha256').update(prompt).digest('hex').slice(0, 16)) };
}

/** A model that answers each question's prompts in order. */
function scriptedChat(questions: Texts, answers: SeedCase['answers']): PolicyClient {
  const next = questions.map(() => 0);
  const generate = async ({ prompt }: { readonly prompt: readonly { readonly content: unknown }[] }): Promise<TextSample> => {
    const question = questions.findIndex((text) => String(prompt[0]!.content).includes(text));
    const text = answers[question]![next[question]!++] ?? 'out of script<|im_end|>';
    // A real server leaves the end of the turn in the text, or the text was cut off.
    return {
      text,
      finish: text.endsWith('<|im_end|>') ? 'stop' : 'length',
      stopReason: null,
      usage: { promptTokens: 0, completionTokens: 0, cachedTokens: null },
    };
  };
  const lease = { kind: 'chat', policy: { version: 0, model: 'scripted' }, generate, [Symbol.asyncDispose]: async () => {} };
  return { name: 'scripted', lease: async () => lease, close: async () => {} } as unknown as PolicyClient;
}

function scriptedSearch(passages: SeedCase['passages']): Retriever {
  return {
    name: 'scripted',
    search: async (queries) => queries.map((query) => (passages[query] ?? []).map((contents) => ({ contents }))),
    close: async () => {},
  };
}

export const pipelineAdapters: Readonly<Record<string, Adapter>> = {
  ultrarag_pipelines: toyPipelines,
  ultrarag_seed_pipeline: seedPipeline,
  jinja_templates: templates,
  python_shuffle: shuffle,
};
