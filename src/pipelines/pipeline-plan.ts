/** A pipeline bound to its servers: every step knows its tool and the source of each argument. All faults are found here. */
import { suggestion } from '../core/closest-name.ts';
import { PipelineFileError, type PipelineFault } from './pipeline-error.ts';
import { type BranchOf, type LoopOf, type Pipeline, type Step, type StepOf, type ToolStep, toolSteps } from './pipeline.ts';
import type { PipelineServer, PipelineTool } from './pipeline-server.ts';
import { parseToolIo, type ToolIo } from './tool-io.ts';

export type PlannedStep = StepOf<PlannedCall>;
export type PlannedLoop = LoopOf<PlannedCall>;
export type PlannedBranch = BranchOf<PlannedCall>;

export interface PlannedCall {
  readonly kind: 'tool';
  readonly place: string;
  /** `server.tool`. */
  readonly name: string;
  readonly server: string;
  readonly tool: PipelineTool;
  readonly inputs: readonly PlannedInput[];
  readonly outputs: readonly PlannedOutput[];
}

interface PlannedInput {
  readonly argument: string;
  readonly from: 'variable' | 'history' | 'parameter';
  /** The variable, the variable whose history is used, or the parameter. */
  readonly name: string;
}

export interface PlannedOutput {
  /** Its key in the reply. */
  readonly key: string;
  readonly to: 'variable' | 'parameter';
  readonly name: string;
}

export interface PipelinePlan {
  readonly steps: readonly PlannedStep[];
  /** Variables whose earlier values some step asks for. */
  readonly histories: ReadonlySet<string>;
  /** The parameters that the steps use, by server. */
  readonly used: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface PlanParts {
  readonly servers: ReadonlyMap<string, PipelineServer>;
  /** Names of the parameters that have a value, by server; decides for servers that take any parameter. */
  readonly named: ReadonlyMap<string, readonly string[]>;
  /** Names the pipeline in messages. */
  readonly where: string;
}

/** A tool of a server that is not open: it takes and gives what the step names. */
const UNREAD_TOOL: PipelineTool = {
  io: ({ inputs, outputs }) => `${inputs.join(',')}->${outputs.join(',')}`,
  run: () => Promise.reject(new TypeError('The server of this step is not open')),
};

/** Throws PipelineFileError for an unknown server, tool, argument, variable or parameter. */
export function planPipeline(pipeline: Pipeline, parts: PlanParts): PipelinePlan {
  return new Planner(parts).plan(pipeline);
}

class Planner {
  readonly #parts: PlanParts;
  readonly #variables = new Set<string>();
  /** Every variable that some step of the pipeline writes. */
  readonly #written = new Set<string>();
  readonly #histories = new Set<string>();
  readonly #used = new Map<string, Set<string>>();
  /** A step of a server that is not open may write any variable. */
  #mayWriteAny = false;

  constructor(parts: PlanParts) {
    this.#parts = parts;
  }

  plan({ servers, steps }: Pipeline): PipelinePlan {
    for (const name of Object.keys(servers)) this.#used.set(name, new Set());
    for (const step of toolSteps(steps)) for (const { to, name } of this.#outputs(step)) if (to === 'variable') this.#written.add(name);
    return { steps: this.#steps(steps), histories: this.#histories, used: this.#used };
  }

  #steps(steps: readonly Step[]): readonly PlannedStep[] {
    return steps.map((step) => {
      if (step.kind === 'tool') return this.#call(step);
      return step.kind === 'branch' ? this.#branch(step) : { ...step, steps: this.#steps(step.steps) };
    });
  }

  #branch({ router, branches, ...step }: BranchOf<ToolStep>): PlannedBranch {
    const routers = router.map((each) => this.#call(each));
    return { ...step, router: routers, branches: new Map([...branches].map(([state, steps]) => [state, this.#steps(steps)])) };
  }

  #call(step: ToolStep): PlannedCall {
    const { place, server } = step;
    const tool = this.#tool(step);
    const name = `${server}.${step.tool}`;
    const { inputs } = this.#io(step);
    const stranger = Object.keys(step.input).find((argument) => !inputs.some((input) => input.argument === argument));
    if (stranger !== undefined) {
      const known = inputs.map((input) => input.argument);
      throw this.#wrong('key', step, `has no input ${stranger}${suggestion(stranger, known)}; it takes ${known.join(', ') || 'none'}`);
    }
    if (this.#isUnread(server)) this.#mayWriteAny = true;
    const planned = inputs.map(({ argument, name: standard }) => this.#input(step, argument, step.input[argument] ?? standard));
    const outputs = this.#outputs(step);
    for (const output of outputs) if (output.to === 'variable') this.#variables.add(output.name);
    return { kind: 'tool', place, name, server, tool, inputs: planned, outputs };
  }

  #input(step: ToolStep, argument: string, name: string): PlannedInput {
    if (name.startsWith('$') || this.#isParameter(step.server, name)) return this.#parameter(step, argument, name.replace(/^\$/, ''));
    const [, remembered] = /^mem(?:ory)?_(.+)$/.exec(name) ?? [];
    if (remembered !== undefined && !this.#variables.has(name)) {
      if (!this.#written.has(remembered) && !this.#mayWriteAny) throw this.#unknownVariable(step, remembered, this.#written);
      this.#histories.add(remembered);
      return { argument, from: 'history', name: remembered };
    }
    if (!this.#variables.has(name) && !this.#mayWriteAny) throw this.#unknownVariable(step, name, this.#variables);
    return { argument, from: 'variable', name };
  }

  #parameter(step: ToolStep, argument: string, name: string): PlannedInput {
    const { server } = step;
    if (this.#isUnread(server)) return { argument, from: 'parameter', name };
    if (!this.#isParameter(server, name)) {
      const known = this.#parameterNames(server);
      throw this.#wrong(
        'parameter',
        step,
        `needs the parameter ${name}, which ${server} does not have${suggestion(name, known)}; it has ${known.join(', ') || 'none'}`,
      );
    }
    const used = this.#used.get(server) ?? new Set();
    this.#used.set(server, used.add(name));
    return { argument, from: 'parameter', name };
  }

  #unknownVariable(step: ToolStep, name: string, known: Iterable<string>): PipelineFileError {
    const names = [...known];
    const later = this.#written.has(name) ? '; a later step writes it' : '';
    return this.#wrong(
      'variable',
      step,
      `needs the variable ${name}, which no earlier step writes${later}${suggestion(name, names)}; there are ${names.join(', ') || 'none'}`,
    );
  }

  #outputs(step: ToolStep): readonly PlannedOutput[] {
    const { outputs } = this.#io(step);
    const stranger = Object.keys(step.output).find((key) => !outputs.includes(key));
    if (stranger !== undefined) {
      throw this.#wrong('key', step, `has no output ${stranger}${suggestion(stranger, outputs)}; it gives ${outputs.join(', ') || 'none'}`);
    }
    return outputs.map((key) => {
      const name = step.output[key] ?? key;
      const bare = name.replace(/^\$/, '');
      const isParameter = name.startsWith('$') || (step.output[key] === undefined && this.#isParameter(step.server, name));
      return { key: key.replace(/^\$/, ''), to: isParameter ? 'parameter' : 'variable', name: bare };
    });
  }

  #tool(step: ToolStep): PipelineTool {
    const { servers } = this.#parts;
    const server = servers.get(step.server);
    if (server === undefined) {
      const known = [...servers.keys()];
      throw this.#wrong(
        'server',
        step,
        `needs the server ${step.server}, which the file does not list${suggestion(step.server, known)}; it lists ${known.join(', ') || 'none'}`,
      );
    }
    if (server.isUnopened === true) return UNREAD_TOOL;
    if (Object.hasOwn(server.tools, step.tool)) return server.tools[step.tool]!;
    const known = Object.keys(server.tools);
    const near = suggestion(step.tool, known);
    throw this.#wrong('tool', step, `is not a tool of the server ${step.server}${near || `; it has ${known.join(', ') || 'none'}`}`);
  }

  #io(step: ToolStep): ToolIo {
    const { io } = this.#tool(step);
    const isKnown = (name: string) => this.#isParameter(step.server, name) || this.#variables.has(name);
    const text = typeof io === 'string' ? io : io({ inputs: Object.keys(step.input), outputs: Object.keys(step.output), isKnown });
    return parseToolIo(text, `${step.server}.${step.tool}`);
  }

  #isUnread(server: string): boolean {
    return this.#parts.servers.get(server)?.isUnopened === true;
  }

  #isParameter(server: string, name: string): boolean {
    return this.#parameterNames(server).includes(name);
  }

  #parameterNames(server: string): readonly string[] {
    const parameters = this.#parts.servers.get(server)?.parameters;
    return parameters === 'any' || parameters === undefined ? (this.#parts.named.get(server) ?? []) : Object.keys(parameters);
  }

  #wrong(fault: PipelineFault, { place, server, tool }: ToolStep, message: string): PipelineFileError {
    return new PipelineFileError(`${this.#parts.where}: ${server}.${tool} (step ${place}) ${message}`, { fault });
  }
}
