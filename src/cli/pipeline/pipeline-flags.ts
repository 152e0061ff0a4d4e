import type { ToolsVersion } from '../../pipelines/servers/tools-version.ts';

export interface PipelineFlags {
  /** Each one is `server.key=value`. */
  readonly set?: readonly string[];
  readonly tools?: ToolsVersion;
  readonly verbose?: true;
}
