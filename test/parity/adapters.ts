/** Maps each vector file to the part of the port that it tests. A file without an entry fails, unless it is listed as skipped. */
import { grpoAdapters } from './grpo-adapters.ts';
import { grpoTranscriptAdapter } from './grpo-transcript-adapter.ts';
import { lossAdapters } from './loss-adapters.ts';
import { metricAdapters } from './metric-adapters.ts';
import { pipelineAdapters } from './pipeline-adapters.ts';
import { bm25Adapter, retrieveEndpointAdapter, serpAdapter } from './retrieval-adapters.ts';
import { searchO1Adapters } from './search-o1-adapters.ts';
import { selfPlayAdapters } from './self-play-adapters.ts';
import { textAdapters } from './text-adapters.ts';
import { tokenStateAdapter } from './token-state-adapter.ts';
import { toolAdapters } from './tool-adapters.ts';
import { transcriptAdapter } from './transcript-adapter.ts';
import { upstreamTrainingAdapters } from './upstream-training-adapters.ts';
import { visualRoundsAdapters } from './visual-rounds-adapters.ts';
import { visualScoreAdapters } from './visual-score-adapters.ts';
import { visualTrainingAdapters } from './visual-training-adapters.ts';
import { visualTurnAdapters } from './visual-turn-adapters.ts';
import type { Adapter } from './vectors.ts';

/** Vector files that the port does not reproduce, with the reason. */
export const SKIPPED_FILES: Readonly<Record<string, string>> = {
  google_snippet: 'helpers of upstream’s Google server, which is not part of the port',
  rerank_passages: 'helpers of upstream’s reranking server, which its own rollout cannot consume',
};

export const ADAPTERS: Readonly<Record<string, Adapter>> = {
  ...textAdapters,
  ...upstreamTrainingAdapters,
  ...visualTurnAdapters,
  ...visualScoreAdapters,
  ...visualTrainingAdapters,
  ...visualRoundsAdapters,
  ...lossAdapters,
  ...metricAdapters,
  ...grpoAdapters,
  grpo_inline_transcripts: grpoTranscriptAdapter,
  ...searchO1Adapters,
  ...selfPlayAdapters,
  ...pipelineAdapters,
  ...toolAdapters,
  token_state: tokenStateAdapter,
  transcripts: transcriptAdapter,
  transcripts_truncated: transcriptAdapter,
  bm25_lucene_test: bm25Adapter,
  bm25_lucene_stress: bm25Adapter,
  retrieve_endpoint: retrieveEndpointAdapter,
  serp_process_result: serpAdapter,
};
