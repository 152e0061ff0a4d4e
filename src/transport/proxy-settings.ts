export interface ProxySettings {
  readonly http: string | null;
  readonly https: string | null;
  readonly exceptions: readonly string[];
}
