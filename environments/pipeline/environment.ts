/** The entry module of `vf-search/environments/pipeline`: a pipeline of UltraRAG as an environment, one question an episode. */
export { facts, loadEnvironment } from './load-environment.ts';
export { PipelineEnv, type PipelineEnvOptions, type PipelineRow } from './pipeline-env.ts';
