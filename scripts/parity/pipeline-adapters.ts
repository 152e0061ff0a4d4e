/** Adapters for whole pipelines: loops and branches over toy tools, through the reader, the plan and the engine. */
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { parsePipeline } from '../../src/pipelines/pipeline.ts';
import { PipelineError, PipelineFileError } from '../../src/pipelines/pipeline-error.ts';
import { PromptTemplate } from '../../src/pipelines/prompt-template.ts';
import { pythonShuffle } from '../../src/pipelines/python-shuffle.ts';
import { planPipeline } from '../../src/pipelines/pipeline-plan.ts';
import type { PipelineServer, PipelineTool, Values } from '../../src/pipelines/pipeline-server.ts';
import { type FinishedCall, runPipeline } from '../../src/pipelines/run-pipeline.ts';
import type { Adapter } from './vectors.ts';

const MOST_CALLS = 60;

type Texts = readonly string[];

const toy = (io: string, run: (args: Values) => Values): PipelineTool => ({ io, run: async (args) => run(args) });

const router = (state: (text: string) => string) =>
  toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).map((data) => ({ data, state: state(data) })) }));

/** Lists a step's calls; the note of the vectors describes the tools. */
const TOYS: Readonly<Record<string, PipelineServer>> = {
  t: {
    parameters: { items: {}, sep: {} },
    tools: {
      init: toy('items->a_ls', ({ items }) => ({ a_ls: items })),
      step: toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).map((a) => `${a}s`) })),
      copy: toy('a_ls->b_ls', ({ a_ls }) => ({ b_ls: (a_ls as Texts).map((a) => `${a}b`) })),
      join: toy('a_ls,b_ls,sep->a_ls', ({ a_ls, b_ls, sep }) => ({
        a_ls: (a_ls as Texts).map((a, i) => `${a}${String(sep)}${(b_ls as Texts)[i]!.slice(-1)}`),
      })),
      short: toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).slice(0, -1) })),
      mute: toy('a_ls->z_ls', () => ({})),
      look: toy('memory_a_ls->n', ({ memory_a_ls }) => ({ n: [String((memory_a_ls as readonly unknown[]).length)] })),
    },
  },
  r: {
    parameters: {},
    tools: {
      parity: router((text) => (text.length % 2 === 0 ? 'even' : 'odd')),
      mod3: router((text) => `s${text.length % 3}`),
      done: router((text) => (text.length >= 5 ? 'done' : 'more')),
    },
  },
};

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
        resolve: (path) => path,
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

export const pipelineAdapters: Readonly<Record<string, Adapter>> = {
  ultrarag_pipelines: toyPipelines,
  jinja_templates: templates,
  python_shuffle: shuffle,
};
