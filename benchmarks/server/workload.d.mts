export function conversation(stream: number, round: number): { role: "system" | "user"; content: string }[];
