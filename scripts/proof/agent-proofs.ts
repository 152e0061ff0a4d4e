/** The subjects of `npm run prove agents`: agents as their packages' documentation has them, and what each must reach. A further agent is a further entry. */
import { join } from 'node:path';
import type { ProofOptions } from './proof-options.ts';
import { ROOT, setFlags } from './train-once.ts';

export const PRESET = 'laptop-copy';

export interface AgentProof {
  readonly name: string;
  readonly about: string;
  /** The arguments of vf-train that name the environment, for a folder that `writeStrangeWorld` wrote. */
  readonly environment: (world: string, options: ProofOptions) => readonly string[];
  /** The share of right answers, by its name in metrics.jsonl. @default 'rubric/exactMatch' */
  readonly metric?: string;
  /** Settings of every run. @default none */
  readonly settings?: readonly string[];
  /** A command that starts as the agent's process does, and ends before its first request; absent if the agent runs in the process. */
  readonly process?: (options: ProofOptions) => readonly string[];
  /** Held-out share of right answers: at most `start` before training, at least `end` after it. */
  readonly start: number;
  readonly end: number;
  /** Seconds from the command to its result, on two idle cores. */
  readonly seconds: number;
  /** Branches of a rollout: one, or two and more. */
  readonly branches: 'one' | 'several';
  readonly quickSteps: number;
  /** At least this after `quickSteps`; absent if they are too few to learn, and only show that nothing forks and no log-prob differs. */
  readonly quickEnd?: number;
  /** Further runs of the first seed, whose figures are shown. */
  readonly variants?: readonly { readonly label: string; readonly settings: readonly string[] }[];
  /** The first seed is trained once more, and must give the same adapter. */
  readonly repeats?: true;
}

/** An environment of `scripts/proof/agents`. */
function ours(module: string): AgentProof['environment'] {
  return (world) => [join(ROOT, 'scripts/proof/agents', module), ...setFlags([`environment.args.world=${world}`])];
}

/** The environment `agent`, which starts a process for each rollout. */
function python(world: string, { python: command }: ProofOptions): readonly string[] {
  const args = { command: [command, join(ROOT, 'scripts/proof/agents/reader.py'), join(world, 'corpus.jsonl')], answer: 'json' };
  const files = { dataset: join(world, 'heldout.jsonl'), train_dataset: join(world, 'train.jsonl') };
  return ['agent', ...setFlags(Object.entries({ ...args, ...files }).map(([name, value]) => `environment.args.${name}=${JSON.stringify(value)}`))];
}

const LEARNS = { start: 0.15, end: 0.85, seconds: 90, branches: 'one', quickSteps: 2 } as const;

export const AGENT_PROOFS: readonly AgentProof[] = [
  {
    ...LEARNS,
    name: 'ai-sdk',
    environment: ours('ai-sdk.ts'),
    about: 'a `ToolLoopAgent` of the AI SDK; its model is the policy in the same process',
    quickSteps: 10,
    quickEnd: 0.4,
  },
  {
    ...LEARNS,
    name: 'openai-agents',
    environment: ours('openai-agents.ts'),
    about: 'an agent of the OpenAI Agents SDK for TypeScript, over Responses, streamed',
  },
  { ...LEARNS, name: 'langgraph', environment: ours('langgraph.ts'), about: 'a ReAct agent of LangGraph.js, over Chat Completions' },
  {
    ...LEARNS,
    name: 'python',
    environment: python,
    about: 'a Python script with the package `openai`, a process per rollout',
    metric: 'rubric/exact_match',
    seconds: 180,
    // Python takes most of a second of a core to import the package, so that the processes take longer than everything else.
    settings: ['steps=10', 'rollouts.rollouts_per_example=8', 'rollouts.max_concurrent=8', 'evaluation.examples=40'],
    process: ({ python: command }) => [command, '-c', 'from openai import OpenAI; OpenAI(api_key="none")'],
  },
  {
    ...LEARNS,
    name: 'rewrites',
    environment: ours('rewrites.ts'),
    about: 'an agent that rewrites its history after each search, and keeps only the last one',
    end: 0.6,
    branches: 'several',
    variants: [{ label: 'branches = "last"', settings: ['algorithm.branches=last'] }],
  },
  {
    ...LEARNS,
    name: 'sub-agents',
    environment: ours('sub-agents.ts'),
    about: 'an agent that asks two sub-agents at the same time',
    end: 0.6,
    seconds: 180,
    branches: 'several',
    repeats: true,
  },
];

/** The loop of tools that is trained as a `ToolEnv` and as an agent. */
export const SAME = { name: 'same', environment: ours('same.ts'), steps: 5, quickSteps: 2 } as const;
