/** `vf-search/execution`: runs Python programs that a model wrote in a sandbox, for environments. */
export * from './code-executor.ts';
export { openExecutor, type ExecutorOptions } from './open-executor.ts';
export type { Literal, LiteralNumber, LiteralText } from './literals/literal.ts';
export { literalsEqual } from './literals/literals-equal.ts';
export { type LiteralOptions, type ParsedLiteral, parseLiteral } from './literals/parse-literal.ts';
export { ExecutionError } from '../core/errors.ts';
export { findCommand, type FindProgramOptions } from './program/find-program.ts';
export { openProgramFolder, type ProgramFolder, removeOldFolders } from './program/program-folder.ts';
export { assertShowable, neededFolders, type ProgramSandbox, sandboxHasProc } from './program/program-sandbox.ts';
export { assertSandbox, PROGRAM_VARIABLES, type ProgramEnd, type ProgramOptions, runProgram } from './program/run-program.ts';
