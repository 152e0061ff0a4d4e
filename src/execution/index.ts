/** `vf-search/execution`: runs Python programs that a model wrote in a sandbox, for environments. */
export * from './code-executor.ts';
export { openExecutor, type ExecutorOptions } from './open-executor.ts';
