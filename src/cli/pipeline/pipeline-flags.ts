import type { ToolsVersion } from '../../pipelines/servers/tools-version.ts';

export interface PipelineFlags {
  /** `server.key=value` each. */
  readonly set?: readonly string[];
  readonly tools?: ToolsVersion;
  readonly verbose?: true;
}
