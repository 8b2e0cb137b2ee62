/** Whether something that is named by its key (a trajectory, a group) is of a run: its first part names that. */
export const isOf = (key: string, run: string): boolean => encodeURIComponent(run) === key.split(":")[0];
