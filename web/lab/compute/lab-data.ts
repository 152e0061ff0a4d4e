/** `lab.json`, which the build writes next to the page. */
import type { SearchR1Options } from '../../../environments/search-r1/search-r1-env.ts';
import type { TrainingConfig } from '../../../src/schemas/training-config.ts';

export interface LabData {
  readonly config: TrainingConfig;
  readonly environment: Omit<SearchR1Options, 'retriever'>;
  readonly evaluation: Omit<SearchR1Options, 'retriever'>;
  readonly passages: readonly { readonly id: string; readonly contents: string }[];
}
