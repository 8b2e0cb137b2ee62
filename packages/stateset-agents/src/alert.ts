/** What somebody is told of: a run that came to an end or ails, a server in trouble. */

export const runAlertKinds = ["finished", "failed", "unhealthy"] as const;
export const serverAlertKinds = ["queue-full", "error-rate", "engine-failed"] as const;

export interface RunAlert {
  kind: (typeof runAlertKinds)[number];
  run: string;
  steps: number;
  message: string;
}

export interface ServerAlert {
  kind: (typeof serverAlertKinds)[number];
  /** What the server is called. */
  server: string;
  message: string;
}
