/** The folder that holds the starter model, in Hugging Face layout. */
export declare const starterModelPath: string;
