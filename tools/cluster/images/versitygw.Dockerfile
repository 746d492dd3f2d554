# An S3 server over a folder. The program is all there is.
FROM scratch
COPY versitygw /versitygw
USER 1000:1000
ENTRYPOINT ["/versitygw"]
