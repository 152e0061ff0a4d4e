/** The servers that are part of the package, by UltraRAG's names. */
import type { PipelineServer, Values } from '../pipeline-server.ts';
import type { ServiceOpeners } from '../service-openers.ts';
import { benchmarkServer } from './benchmark-server.ts';
import { corpusServer } from './corpus-server.ts';
import { customServer } from './custom-server.ts';
import { evaluationServer } from './evaluation-server.ts';
import { generationServer } from './generation-server.ts';
import { promptServer } from './prompt-server.ts';
import { retrieverServer } from './retriever-server.ts';
import { routerServer } from './router-server.ts';
import type { ToolsVersion } from './tools-version.ts';

export const BUILTIN_SERVERS = ['benchmark', 'corpus', 'custom', 'evaluation', 'generation', 'prompt', 'retriever', 'router'] as const;

export type BuiltinServer = (typeof BUILTIN_SERVERS)[number];

export function isBuiltinServer(name: string): name is BuiltinServer {
  return (BUILTIN_SERVERS as readonly string[]).includes(name);
}

export interface BuiltinParts {
  readonly version: ToolsVersion;
  readonly openers: ServiceOpeners;
  /** The parameters that are set for the server; those of the benchmark name its variables. */
  readonly given: Values;
}

const FACTORIES: Readonly<Record<BuiltinServer, (parts: BuiltinParts) => PipelineServer>> = {
  benchmark: ({ given }) => benchmarkServer(given),
  corpus: ({ version }) => corpusServer(version),
  custom: ({ version }) => customServer(version),
  evaluation: () => evaluationServer(),
  generation: ({ version, openers }) => generationServer(version, openers),
  prompt: ({ version }) => promptServer(version),
  retriever: ({ version, openers }) => retrieverServer(version, openers),
  router: ({ version }) => routerServer(version),
};

export function builtinServer(name: BuiltinServer, parts: BuiltinParts): PipelineServer {
  return FACTORIES[name](parts);
}
