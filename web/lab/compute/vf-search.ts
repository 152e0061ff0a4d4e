/** The parts that the environment imports from the package by its name, without the package's other parts, which need Node. */
export { Dataset, type Row } from '../../../src/core/dataset.ts';
export type * from '../../../src/core/environment.ts';
export * from '../../../src/core/errors.ts';
export { contentText, type Message } from '../../../src/core/message.ts';
export { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../../src/core/multi-turn.ts';
export { metric, type MetricDisplay, reward, type RewardContext, Rubric, type TextSegment } from '../../../src/core/rubric.ts';
export type { Passage, Retriever } from '../../../src/retrieval/retriever.ts';
