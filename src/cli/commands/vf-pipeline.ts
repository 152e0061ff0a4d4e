/** Declares `vf-pipeline`: UltraRAG's YAML pipelines, without Python and without server processes. */
import { TOOLS_VERSIONS } from '../../pipelines/servers/tools-version.ts';
import { argument, defineCommand, defineCommands } from '../options/define-command.ts';
import { flag, oneOf, optionalFolder, texts } from '../options/kinds.ts';
import { type OptionValues, table } from '../options/option.ts';
import { MAX_WAIT, RUNS_FOLDER, STRICT_STOPS, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
A pipeline is a YAML file of UltraRAG: servers by name, and the tools to call,
in loops and branches. Its parameters are next to it, in
parameter/<its name>.yaml:

  vf-pipeline build examples/search_o1.yaml   writes that file
  vf-pipeline check examples/search_o1.yaml   finds faults, runs nothing
  vf-pipeline run examples/search_o1.yaml     runs it

The package has this example; build copies it here. It needs a chat model and a
search server, which may be any OpenAI-compatible API and:
  vf-serve retrieve --port 8080
Other addresses, questions or limits go into the parameter file, or:
  vf-pipeline run examples/search_o1.yaml \\
      --set generation.base_url=https://api.openai.com/v1 \\
      --set generation.model_name=gpt-4.1-mini \\
      --set benchmark.benchmark.path=questions.jsonl
An API key is read from LLM_API_KEY, in the environment or in ./.env.

Built-in servers: benchmark, corpus, custom, evaluation, generation, prompt,
retriever, router. A server of your own is a TypeScript file that exports tools,
or an MCP server:
  servers:
    mine: my-tools.ts
    other: {command: python, args: [server.py]}

docs/pipelines.md has all tools, and what differs from UltraRAG.`;

const RUN_NOTES = `
Results go to <output folder>/pipelines/<name>/<run>: calls.jsonl has every call
with its reply, appended as it ends, and result.json all variables at the end.
A run that was stopped or killed continues with -R and asks for no reply twice.

A question whose generation fails after its retries is left out of later steps
and of every mean, and counted. Exit codes: 0 done, 1 failed while running, 2
cannot run as asked, which is found before the first call, 129 stopped
because the terminal was closed, 130 by Ctrl-C, 143 by SIGTERM.`;

const FILE = { file: argument('the pipeline, a YAML file', { completion: 'files' }) };

const OPTIONS = table({
  set: texts('set a parameter, in YAML; further dots lead into tables', { placeholder: 'SERVER.KEY=VALUE' }),
  tools: oneOf(TOOLS_VERSIONS, 'the UltraRAG version whose tools the file uses', { otherwise: 'inferred from the steps' }),
  ...VERBOSE,
});

const RUN_OPTIONS = table({
  ...RUNS_FOLDER,
  resume: optionalFolder('continue a run: the one in DIR, or the newest incomplete one', { letter: 'R' }),
  ...MAX_WAIT,
  json: flag('the result as one JSON object on stdout'),
  ...STRICT_STOPS,
  ...OPTIONS,
});

/** A stranger may have written the file, so `check` and `build` run nothing that it names unless they are told to. */
const CHECK_OPTIONS = table({
  ...OPTIONS,
  startServers: flag('start the commands, import the modules and ask the URLs that the file names as servers, to check their steps too'),
});

export type PipelineOptions = OptionValues<typeof OPTIONS>;
export type PipelineCheckOptions = OptionValues<typeof CHECK_OPTIONS>;
export type PipelineRunOptions = OptionValues<typeof RUN_OPTIONS>;

const build = defineCommand({
  name: 'vf-pipeline build',
  summary: 'Writes the parameter file of a pipeline next to it: values already set are kept.',
  examples: [['vf-pipeline build examples/search_o1.yaml', 'writes examples/parameter/search_o1.yaml']],
  arguments: FILE,
  options: CHECK_OPTIONS,
  run: async ({ arguments: { file }, options, context }) => (await import('../pipeline/build-pipeline.ts')).buildPipeline(file, options, context),
});

const run = defineCommand({
  name: 'vf-pipeline run',
  summary: 'Runs a pipeline.',
  examples: [
    ['vf-pipeline run examples/search_o1.yaml \\\n    --set generation.model_name=gpt-4.1-mini', 'runs it with another model'],
    ['vf-pipeline run examples/search_o1.yaml -R', 'continues the newest incomplete run'],
  ],
  arguments: FILE,
  options: RUN_OPTIONS,
  notes: RUN_NOTES,
  run: async ({ arguments: { file }, options, context }) =>
    (await import('../pipeline/run-named-pipeline.ts')).runNamedPipeline(file, options, context),
});

const check = defineCommand({
  name: 'vf-pipeline check',
  summary: 'Checks a pipeline, its parameters and the files that they name.',
  examples: [['vf-pipeline check examples/search_o1.yaml', 'finds faults without starting or calling a server']],
  arguments: FILE,
  options: CHECK_OPTIONS,
  run: async ({ arguments: { file }, options, context }) => (await import('../pipeline/check-pipeline.ts')).checkPipeline(file, options, context),
});

export const vfPipeline = defineCommands({
  name: 'vf-pipeline',
  summary: "Runs UltraRAG's YAML pipelines: no Python, no server processes.",
  commands: [build, run, check],
  notes: NOTES,
});
