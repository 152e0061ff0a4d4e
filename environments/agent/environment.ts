/** The entry module of `vf-search/environments/agent`: any program that asks a model over HTTP, in any language, a process per rollout. */
export { loadEnvironment } from './load-environment.ts';
export type { AgentRow } from './rows.ts';
export type { ProgramState } from './run-agent.ts';
