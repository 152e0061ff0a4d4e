/** Opens a pipeline: reads its files, opens its servers, and checks everything that can be checked before the first call. */
import { Disposers } from '../core/disposers.ts';
import type { AgentPolicy } from '../core/environment.ts';
import type { CallJournal, JournalHeader } from './call-journal.ts';
import { type ImportModule, moduleFile, openModuleServer } from './module-server.ts';
import { completeParameters, type Parameters, setParameters } from './parameters.ts';
import { parseYaml } from './parse-yaml.ts';
import { type Pipeline, parsePipeline, toolSteps } from './pipeline.ts';
import { besidePipeline, parameterPath, readParameterFile, readPipelineFile } from './pipeline-files.ts';
import { type PipelinePlan, planPipeline } from './pipeline-plan.ts';
import type { PipelineServer, ServedModel, Values } from './pipeline-server.ts';
import { digestOf, namedFiles, withoutOutputs } from './named-files.ts';
import { PipelineFileError } from './pipeline-error.ts';
import { type FinishedCall, type PipelineResult, runPipeline } from './run-pipeline.ts';
import { readServerDefaults, type ServerDefaults, withDefaults } from './server-defaults.ts';
import { parseServerSource, type ServerSource } from './server-source.ts';
import { END_OF_TURN } from './servers/end-of-turn.ts';
import { builtinServer } from './servers/builtin-servers.ts';
import { findToolsVersion, type ToolsVersion } from './servers/tools-version.ts';
import type { ServiceOpeners } from './service-openers.ts';

export interface OpenPipelineOptions {
  readonly path: string;
  /** `server.key=value`; they take precedence over the parameter file. @default none */
  readonly set?: readonly string[];
  /** The version of tools that the steps mean. @default found out from the steps */
  readonly tools?: ToolsVersion;
  readonly openers: ServiceOpeners;
  /** Imports a server that the user brings. */
  readonly importModule: ImportModule;
  /** False: commands are not started, modules not imported and URLs not asked, so that the steps of such servers are not checked. @default true */
  readonly startServers?: boolean;
  readonly signal: AbortSignal;
}

export interface RunPipelineOptions {
  readonly journal: CallJournal;
  readonly signal: AbortSignal;
  /** Replies used instead of a tool's own, by `server.tool`: for example other questions than those of the benchmark. @default none */
  readonly given?: ReadonlyMap<string, Values>;
  /** The policy that each server with `backend: policy` asks, by the server's name. @default none: such a pipeline is refused */
  readonly policies?: ReadonlyMap<string, AgentPolicy>;
  /** Parameters of this run only, by server. @default none */
  readonly set?: ReadonlyMap<string, Values>;
  /** The parameters and files are known to be right: they were checked before, and have not changed. @default false */
  readonly isChecked?: boolean;
  /** @default does nothing */
  readonly onCall?: (call: FinishedCall) => void;
}

/** Stands in for a server that is not open. */
const UNOPENED: PipelineServer = { parameters: 'any', tools: {}, isUnopened: true };

interface OpenedParts extends Pick<OpenPipeline, 'path' | 'tools' | 'servers' | 'sources' | 'plan' | 'set'> {
  readonly text: string;
  readonly defaults: ReadonlyMap<string, ServerDefaults>;
  readonly disposers: Disposers;
}

/** A pipeline with its servers open. Close it at the end. */
export class OpenPipeline implements AsyncDisposable {
  readonly path: string;
  readonly tools: ToolsVersion;
  readonly servers: ReadonlyMap<string, PipelineServer>;
  readonly plan: PipelinePlan;
  /** The file's entry for each server. */
  readonly sources: Pipeline['servers'];
  /** The parameters that are set, without defaults. */
  readonly set: Parameters;
  /** Finds a file that a parameter names: relative to the working directory, or else in the pipeline's folder. */
  readonly resolve: (path: string) => string;
  readonly #text: string;
  readonly #defaults: ReadonlyMap<string, ServerDefaults>;
  readonly #disposers: Disposers;
  #parameters: Parameters | undefined;

  private constructor(parts: OpenedParts) {
    this.path = parts.path;
    this.tools = parts.tools;
    this.servers = parts.servers;
    this.plan = parts.plan;
    this.sources = parts.sources;
    this.set = parts.set;
    this.resolve = besidePipeline(parts.path);
    this.#text = parts.text;
    this.#defaults = parts.defaults;
    this.#disposers = parts.disposers;
  }

  /** Rejects with PipelineFileError for any fault of the pipeline itself; its parameters are checked by `check` and `run`. */
  static async open(options: OpenPipelineOptions): Promise<OpenPipeline> {
    const { path, set: assignments = [] } = options;
    const text = await readPipelineFile(path);
    const pipeline = parsePipeline(parseYaml(text, path), path);
    const file = await readParameterFile(path);
    const values = file === null ? null : parseYaml(file.text, file.path);
    const defaults = await readServerDefaults(pipeline, besidePipeline(path));
    const tools = options.tools ?? findToolsVersion(pipeline.steps);
    const disposers = new Disposers();
    try {
      const where = file?.path ?? '--set';
      // The parameters of servers are not known before they are opened, but some servers need them for opening.
      const given = setParameters({ servers: anyServers(pipeline), defaults, file: values, where, set: assignments });
      const servers = await openServers(pipeline, { ...options, tools, given, defaults, disposers });
      const set = setParameters({ servers, defaults, file: values, where, set: assignments });
      const named = new Map([...set].map(([name, table]) => [name, Object.keys(table)]));
      const plan = planPipeline(pipeline, { servers, named, where: path });
      return new OpenPipeline({ path, tools, servers, sources: pipeline.servers, plan, set, text, defaults, disposers });
    } catch (error) {
      await disposers.disposeAsync();
      throw error;
    }
  }

  /** The names of servers that were not started, whose steps and parameters `check` leaves out. */
  get unopened(): readonly string[] {
    return [...this.servers].flatMap(([name, { isUnopened }]) => (isUnopened === true ? [name] : []));
  }

  /** All parameters with their defaults. Throws PipelineFileError for one that is missing or of the wrong kind. */
  parameters(): Parameters {
    return (this.#parameters ??= completeParameters(this.set, { servers: this.servers, used: this.plan.used, where: parameterPath(this.path) }));
  }

  /**
   * Checks parameters, and the files that they name. Rejects with PipelineFileError. `given`: tools that will not be called; `set`: parameters that the
   * run will have instead. Returns lines about settings that can run but are probably not meant.
   */
  async check(signal: AbortSignal, given: ReadonlyMap<string, Values> = new Map(), set: Parameters = new Map()): Promise<readonly string[]> {
    const warnings = new Set<string>();
    const warn = (line: string) => void warnings.add(line);
    const parameters = this.#parametersWith(set);
    for (const { name, server, tool, inputs } of toolSteps(this.plan.steps)) {
      if (tool.check === undefined || given.has(name)) continue;
      const own = parameters.get(server)!;
      const used = inputs.filter(({ from }) => from === 'parameter').map(({ argument, name: key }) => [argument, own[key]] as const);
      await tool.check(Object.fromEntries(used), { parameters: own, resolve: this.resolve, signal, warn });
    }
    for (const line of [...this.#endOfTurnWarnings(parameters, given), ...this.#defaultWarnings()]) warn(line);
    return [...warnings];
  }

  /** A router that looks for what no answer shows never says stop. */
  #endOfTurnWarnings(parameters: Parameters, given: ReadonlyMap<string, Values>): readonly string[] {
    const calls = toolSteps(this.plan.steps).filter(({ name }) => !given.has(name));
    const asking = [...new Set(calls.map(({ server }) => server))].filter((name) => this.servers.get(name)?.showsEndOfTurn !== undefined);
    if (asking.length === 0 || asking.some((name) => this.servers.get(name)!.showsEndOfTurn!(parameters.get(name)!))) return [];
    const routers = new Set(calls.filter(({ tool }) => tool.needsEndOfTurn === true).map(({ name }) => name));
    const [server] = asking;
    const key = this.tools === '3.0' ? 'extra_params' : 'sampling_params.extra_body';
    return [...routers].map(
      (router) =>
        `${router} looks for ${END_OF_TURN}, which no answer shows, so it never sees the end of a turn. Set ${server}.${key}.include_stop_str_in_output to true.`,
    );
  }

  #defaultWarnings(): readonly string[] {
    return [...this.#defaults].flatMap(([name, { where, values }]) => {
      const { parameters } = this.servers.get(name)!;
      const idle = Object.keys(values).filter((key) => parameters !== 'any' && !Object.hasOwn(parameters, key));
      return idle.length === 0 ? [] : [`${where}: the built-in server has no parameter ${idle.join(', ')}; this part of the file has no effect.`];
    });
  }

  /** Checks, then runs. Rejects with PipelineFileError before the first call, with PipelineError or a server's error after it. */
  async run({ journal, signal, given, policies, set = new Map(), isChecked = false, onCall }: RunPipelineOptions): Promise<PipelineResult> {
    const asking = this.models()
      .entries()
      .find(([server, model]) => model === 'policy' && policies?.has(server) !== true);
    if (asking !== undefined)
      throw new PipelineFileError(
        `${asking[0]}.backend is policy, the model of a run of vf-eval or vf-train. Play the pipeline there: vf-eval pipeline -a '${JSON.stringify({ file: this.path })}' -m MODEL`,
        { fault: 'parameter' },
      );
    if (!isChecked) await this.check(signal, given, set);
    return runPipeline(this.plan, {
      parameters: this.#parametersWith(set),
      journal,
      resolve: this.resolve,
      signal,
      ...(given && { given }),
      ...(policies && { policies }),
      ...(onCall && { onCall }),
    });
  }

  /** The models that the servers of its steps call, by server; `policy`: that of the run. */
  models(): ReadonlyMap<string, ServedModel | 'policy'> {
    const parameters = this.parameters();
    const asking = new Set(toolSteps(this.plan.steps).map(({ server }) => server));
    return new Map(
      [...this.servers].flatMap(([name, server]) => {
        const model = asking.has(name) ? (server.model?.(parameters.get(name)!) ?? null) : null;
        return model === null ? [] : [[name, model]];
      }),
    );
  }

  #parametersWith(set: Parameters): Parameters {
    const parameters = new Map(this.parameters());
    for (const [server, values] of set) parameters.set(server, { ...parameters.get(server), ...values });
    return parameters;
  }

  /** The facts that must be the same for a run to go on. */
  header(): JournalHeader {
    const parameters = this.parameters();
    return {
      pipeline: digestOf(this.#text),
      tools: this.tools,
      parameters: digestOf(JSON.stringify([...withoutOutputs(parameters)])),
      files: namedFiles({ parameters, sources: this.sources, resolve: this.resolve }),
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposers.disposeAsync();
  }
}

interface OpenServersOptions extends OpenPipelineOptions {
  readonly tools: ToolsVersion;
  readonly given: Parameters;
  readonly defaults: ReadonlyMap<string, ServerDefaults>;
  readonly disposers: Disposers;
}

async function openServers(pipeline: Pipeline, { disposers, ...options }: OpenServersOptions): Promise<ReadonlyMap<string, PipelineServer>> {
  const servers = new Map<string, PipelineServer>();
  const sources = Object.entries(pipeline.servers).map(([name, value]) => [name, parseServerSource(name, value)] as const);
  for (const [name, source] of sources) {
    const server = await openServer(name, source, options);
    servers.set(name, server);
    if (server.close) disposers.defer(() => server.close!());
  }
  return servers;
}

async function openServer(
  name: string,
  source: ServerSource,
  { path, tools, given, defaults, openers, importModule, startServers = true, signal }: Omit<OpenServersOptions, 'disposers'>,
): Promise<PipelineServer> {
  if (source.kind === 'builtin') {
    const { values = {} } = defaults.get(name) ?? {};
    return withDefaults(builtinServer(source.name, { version: tools, openers, given: { ...values, ...given.get(name) } }), values);
  }
  if (source.kind === 'module') {
    const file = moduleFile(name, besidePipeline(path)(source.path));
    return startServers ? openModuleServer(name, file, importModule) : UNOPENED;
  }
  if (!startServers) return UNOPENED;
  const { openMcpServer } = await import('./mcp-server.ts');
  return openMcpServer(name, source, { cwd: process.cwd(), signal });
}

function anyServers({ servers }: Pipeline): ReadonlyMap<string, PipelineServer> {
  return new Map(Object.keys(servers).map((name) => [name, { parameters: 'any', tools: {} }]));
}
