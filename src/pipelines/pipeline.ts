/** UltraRAG's pipeline files: servers by name, and steps that call their tools, repeat steps, or send each question to a branch. */
import { isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { PipelineFileError, type PipelineFault } from './pipeline-error.ts';

export interface Pipeline {
  /** The kind of each server, by its name: a folder of UltraRAG's, a file, or a command. Null: the built-in server of that name. */
  readonly servers: Readonly<Record<string, unknown>>;
  readonly steps: readonly Step[];
}

/** A step over its tool steps: as the file has them (`ToolStep`), or bound to servers. */
export type StepOf<T> = T | LoopOf<T> | BranchOf<T>;

export type Step = StepOf<ToolStep>;

/** `server.tool`, or `{server.tool: {input, output}}`. */
export interface ToolStep {
  readonly kind: 'tool';
  /** Its position, from 1 up: `4.loop.1.retrieve.2`. */
  readonly place: string;
  readonly server: string;
  readonly tool: string;
  /** The value that an argument takes instead of its default: a variable, or `$` and a parameter. */
  readonly input: Readonly<Record<string, string>>;
  /** The variable that an output goes to instead of its own name. */
  readonly output: Readonly<Record<string, string>>;
}

/** Repeats its steps; ends early after a round in which only routers ran. */
export interface LoopOf<T> {
  readonly kind: 'loop';
  readonly place: string;
  readonly times: number;
  readonly steps: readonly StepOf<T>[];
}

/** Routes every question to one of the branches. */
export interface BranchOf<T> {
  readonly kind: 'branch';
  readonly place: string;
  readonly router: readonly T[];
  /** In the order of the file. */
  readonly branches: ReadonlyMap<string, readonly StepOf<T>[]>;
}

/** Every tool step, in the order of the file. */
export function toolSteps<T extends { readonly kind: 'tool' }>(steps: readonly StepOf<T>[]): readonly T[] {
  return steps.flatMap((step): readonly T[] => {
    if (step.kind === 'tool') return [step];
    return step.kind === 'loop' ? toolSteps(step.steps) : [...step.router, ...[...step.branches.values()].flatMap((each) => toolSteps(each))];
  });
}

const MAX_DEPTH = 50;
const MOST_ROUNDS = 10_000;
const STEP_NAME = /^([^\s.]+)\.([^\s.]+)$/;

/** Reads a parsed file. `where` names it in messages. Throws PipelineFileError. */
export function parsePipeline(value: unknown, where: string): Pipeline {
  if (!isObject(value)) throw wrong('step', `${where} must have the keys servers and pipeline, got ${kindOrNumber(value)}`);
  assertKeys(value, ['servers', 'pipeline'], where);
  const { servers = {}, pipeline } = value;
  if (!isObject(servers)) throw wrong('server', `${where}: servers must be a table of names, got ${kindOrNumber(servers)}`);
  if (!Array.isArray(pipeline) || pipeline.length === 0) {
    throw wrong(
      'step',
      `${where}: pipeline must be a list of at least one step, got ${Array.isArray(pipeline) ? 'an empty list' : kindOrNumber(pipeline)}`,
    );
  }
  return { servers, steps: parseSteps(pipeline, where, '', 0) };
}

function parseSteps(value: unknown, where: string, place: string, depth: number): readonly Step[] {
  if (depth > MAX_DEPTH) throw wrong('step', `${where}: loops and branches are nested more than ${MAX_DEPTH} deep`);
  if (value === null && place !== '') return [];
  if (!Array.isArray(value)) throw wrong('step', `${where}: ${place.replace(/\.$/, '')} must be a list of steps, got ${kindOrNumber(value)}`);
  return value.map((step, i) => parseStep(step, where, `${place}${i + 1}`, depth));
}

function parseStep(value: unknown, where: string, place: string, depth: number): Step {
  if (typeof value === 'string') return toolStep(value, null, where, place);
  const entries = isObject(value) ? Object.entries(value) : [];
  if (entries.length !== 1) {
    throw wrong(
      'step',
      `${where}: step ${place} must be server.tool, loop or branch, got ${isObject(value) ? 'the keys ' + Object.keys(value).join(', ') : kindOrNumber(value)}`,
    );
  }
  const [[name, content]] = entries as [[string, unknown]];
  if (name === 'loop') return loopStep(content, where, place, depth);
  if (name === 'branch') return branchStep(content, where, place, depth);
  return toolStep(name, content, where, place);
}

function toolStep(name: string, content: unknown, where: string, place: string): ToolStep {
  const [, server, tool] = STEP_NAME.exec(name) ?? [];
  if (server === undefined || tool === undefined) {
    throw wrong('step', `${where}: step ${place} is ${JSON.stringify(name)}; write server.tool, loop or branch`);
  }
  if (content !== null && !isObject(content))
    throw wrong('step', `${where}: ${name} (step ${place}) must have the keys input and output, got ${kindOrNumber(content)}`);
  assertKeys(content ?? {}, ['input', 'output'], `${where}: ${name} (step ${place})`);
  return {
    kind: 'tool',
    place,
    server,
    tool,
    input: names(content?.['input'], `${where}: input of ${name} (step ${place})`),
    output: names(content?.['output'], `${where}: output of ${name} (step ${place})`),
  };
}

function loopStep(content: unknown, where: string, place: string, depth: number): LoopOf<ToolStep> {
  if (!isObject(content)) throw wrong('loop', `${where}: loop (step ${place}) must have the keys times and steps, got ${kindOrNumber(content)}`);
  assertKeys(content, ['times', 'steps'], `${where}: loop (step ${place})`);
  const { times, steps } = content;
  if (typeof times !== 'number' || !Number.isInteger(times) || times < 1 || times > MOST_ROUNDS) {
    throw wrong('loop', `${where}: loop (step ${place}) needs times, a whole number from 1 to ${MOST_ROUNDS}, got ${kindOrNumber(times)}`);
  }
  if (!Array.isArray(steps) || steps.length === 0) throw wrong('loop', `${where}: loop (step ${place}) needs steps, a list of at least one`);
  return { kind: 'loop', place, times, steps: parseSteps(steps, where, `${place}.loop.`, depth + 1) };
}

function branchStep(content: unknown, where: string, place: string, depth: number): BranchOf<ToolStep> {
  if (!isObject(content))
    throw wrong('router', `${where}: branch (step ${place}) must have the keys router and branches, got ${kindOrNumber(content)}`);
  assertKeys(content, ['router', 'branches'], `${where}: branch (step ${place})`);
  const { router, branches } = content;
  if (!Array.isArray(router) || router.length === 0)
    throw wrong('router', `${where}: branch (step ${place}) needs router, a list of at least one tool`);
  const routers = parseSteps(router, where, `${place}.router.`, depth + 1);
  const stranger = routers.find((step) => step.kind !== 'tool');
  if (stranger !== undefined) throw wrong('router', `${where}: the router of branch (step ${place}) must be tools, got a ${stranger.kind}`);
  if (!isObject(branches) || Object.keys(branches).length === 0) {
    throw wrong('router', `${where}: branch (step ${place}) needs branches, a table with a list of steps for each state`);
  }
  const states = Object.entries(branches).map(([state, steps]) => [state, parseSteps(steps, where, `${place}.${state}.`, depth + 1)] as const);
  return { kind: 'branch', place, router: routers as readonly ToolStep[], branches: new Map(states) };
}

function names(value: unknown, what: string): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw wrong('step', `${what} must be a table of names, got ${kindOrNumber(value)}`);
  const stranger = Object.entries(value).find(([, name]) => typeof name !== 'string' || name === '');
  if (stranger !== undefined) {
    throw wrong('step', `${what}: ${stranger[0]} must be the name of a variable, or $ and that of a parameter, got ${kindOrNumber(stranger[1])}`);
  }
  return value as Record<string, string>;
}

function assertKeys(value: Readonly<Record<string, unknown>>, known: readonly string[], what: string): void {
  const stranger = Object.keys(value).find((key) => !known.includes(key));
  if (stranger !== undefined) throw wrong('key', `${what} has the unknown key ${JSON.stringify(stranger)}; known are ${known.join(' and ')}`);
}

function wrong(fault: PipelineFault, message: string): PipelineFileError {
  return new PipelineFileError(message, { fault });
}
