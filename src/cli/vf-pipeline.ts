/** The `vf-pipeline` command: UltraRAG's YAML pipelines, without Python and without server processes. */
import { Command, Option } from 'commander';
import { packageVersion } from '../data/package-root.ts';
import { TOOLS_VERSIONS } from '../pipelines/servers/tools-version.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import type { PipelineFlags } from './pipeline/pipeline-flags.ts';
import type { RunFlags } from './pipeline/run-named-pipeline.ts';
import { collected, named } from './serve/option-values.ts';

const HELP = `
A pipeline is a YAML file of UltraRAG: servers by name, and the tools to call,
in loops and branches. Its parameters are next to it, in
parameter/<its name>.yaml:

  vf-pipeline build examples/search_o1.yaml   writes that file
  vf-pipeline check examples/search_o1.yaml   finds all faults, calls nothing
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

vf-pipeline <command> --help shows the options of a command. docs/pipelines.md
has all tools, and what differs from UltraRAG.`;

const RUN_HELP = `
Results go to <output folder>/pipelines/<name>/<run>: calls.jsonl has every call
with its reply, appended as it ends, and result.json all variables at the end.
A run that was stopped or killed goes on with -R and asks for no reply twice.

A question whose generation fails after its retries is left out of later steps
and of every mean, and counted. Exit codes: 0 done, 1 failed while running, 2
cannot run as asked, which is found before the first call.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  let run: (() => Promise<number>) | null = null;
  const program = new Command('vf-pipeline')
    .description("Runs UltraRAG's YAML pipelines: no Python, no server processes.")
    .version(packageVersion(), '-V, --version')
    .configureHelp({ showGlobalOptions: false })
    .helpCommand(false)
    .addHelpText('after', HELP);
  addCommand(program, 'build', 'Writes the parameters that a pipeline uses next to it, keeps those that are set').action(
    (file: string, flags: PipelineFlags) => {
      context.verbose = flags.verbose === true;
      run = async () => (await import('./pipeline/build-parameters.ts')).buildParameters(file, flags, context);
    },
  );
  addCommand(program, 'run', 'Runs a pipeline')
    .option('-o, --output-dir <folder>', 'where runs are saved (default: ./outputs)', named)
    .option('-R, --resume [folder]', 'go on with a run: the one in the folder, or the newest incomplete one', named)
    .option('--json', 'the result as one JSON object on stdout')
    .addHelpText('after', RUN_HELP)
    .action((file: string, flags: RunFlags) => {
      context.verbose = flags.verbose === true;
      run = async () => (await import('./pipeline/run-named-pipeline.ts')).runNamedPipeline(file, flags, context);
    });
  addCommand(program, 'check', 'Checks a pipeline, its parameters and the files that they name').action((file: string, flags: PipelineFlags) => {
    context.verbose = flags.verbose === true;
    run = async () => (await import('./pipeline/check-pipeline.ts')).checkPipeline(file, flags, context);
  });
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  return run === null ? EXIT.usage : (run as () => Promise<number>)();
}

function addCommand(program: Command, name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .argument('<file>', 'the pipeline, a YAML file', named)
    .option('--set <server.key=value>', 'set a parameter, in YAML; may be repeated, further dots lead into tables', collected)
    .addOption(new Option('--tools <version>', 'whose tools are meant, of UltraRAG 2.0 or 3.0 (default: by the steps)').choices(TOOLS_VERSIONS))
    .option('-v, --verbose', 'stack traces of failures');
}

await runCommand('vf-pipeline', main);
