/** The subjects of `npm run prove agents`: agents as their packages' documentation has them, and what each must reach. A further agent is a further entry. */
import { join } from 'node:path';
import { ROOT } from './train-once.ts';

export const PRESET = 'laptop-copy';

export interface AgentProof {
  readonly name: string;
  readonly about: string;
  /** Of `scripts/proof/agents`. */
  readonly module: string;
  /** Held-out share of right answers: at most `start` before training, at least `end` after it. */
  readonly start: number;
  readonly end: number;
  /** Seconds from the command to its result, on two idle cores. */
  readonly seconds: number;
  /** Branches of a rollout: one, or two and more. */
  readonly branches: 'one' | 'several';
  readonly quickSteps: number;
  /** At least this after `quickSteps`. */
  readonly quickEnd: number;
  /** Further runs of the first seed, whose figures are shown. */
  readonly variants?: readonly { readonly label: string; readonly settings: readonly string[] }[];
  /** The first seed is trained once more, and must give the same adapter. */
  readonly repeats?: true;
}

const LEARNS = { start: 0.15, end: 0.85, seconds: 90, branches: 'one', quickSteps: 10, quickEnd: 0.4 } as const;

export const AGENT_PROOFS: readonly AgentProof[] = [
  { ...LEARNS, name: 'ai-sdk', module: 'ai-sdk.ts', about: 'a `ToolLoopAgent` of the AI SDK; its model is the policy in the same process' },
  {
    ...LEARNS,
    name: 'openai-agents',
    module: 'openai-agents.ts',
    about: 'an agent of the OpenAI Agents SDK for TypeScript, over Responses, streamed',
  },
  { ...LEARNS, name: 'langgraph', module: 'langgraph.ts', about: 'a ReAct agent of LangGraph.js, over Chat Completions' },
  {
    ...LEARNS,
    name: 'rewrites',
    module: 'rewrites.ts',
    about: 'an agent that rewrites its history after each search, and keeps only the last one',
    end: 0.6,
    branches: 'several',
    quickEnd: 0.3,
    variants: [{ label: 'branches = "last"', settings: ['algorithm.branches=last'] }],
  },
  {
    ...LEARNS,
    name: 'sub-agents',
    module: 'sub-agents.ts',
    about: 'an agent that asks two sub-agents at the same time',
    end: 0.6,
    seconds: 180,
    branches: 'several',
    quickEnd: 0.3,
    repeats: true,
  },
];

/** The loop of tools that is trained as a `ToolEnv` and as an agent. */
export const SAME = { name: 'same', module: 'same.ts', steps: 5 } as const;

/** The arguments of vf-train for an agent in a world. */
export function agentArguments(module: string, world: string): readonly string[] {
  return [join(ROOT, 'scripts/proof/agents', module), '--preset', PRESET, '--set', `environment.args.world=${world}`];
}
