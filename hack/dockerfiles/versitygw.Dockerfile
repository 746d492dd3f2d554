# An S3 server over a folder. The image contains only the program.
FROM scratch
COPY versitygw /versitygw
USER 1000:1000
ENTRYPOINT ["/versitygw"]
